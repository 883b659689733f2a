// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace stepfuse::runtime {

/// Extents and counts, as the OpenBLAS we link has them.
using LapackInt = int32_t;

// LAPACK's routines, one name for both types; every matrix is column-major without gaps. Each returns LAPACK's INFO: 0,
// or above 0 where an iteration did not converge. A `work` of -1 elements asks for the size that runs best, which goes
// into its first element.

/// Eigenvalues of the symmetric `a` (its lower triangle), ascending, and its eigenvectors in its place.
LapackInt lapack_syevd(LapackInt n, float* a, float* values, float* work, LapackInt work_size, LapackInt* iwork,
                       LapackInt iwork_size);
LapackInt lapack_syevd(LapackInt n, double* a, double* values, double* work, LapackInt work_size, LapackInt* iwork,
                       LapackInt iwork_size);

/// Reflections of the QR of `a`, in its place and in `tau`.
LapackInt lapack_geqrf(LapackInt rows, LapackInt cols, float* a, float* tau, float* work, LapackInt work_size);
LapackInt lapack_geqrf(LapackInt rows, LapackInt cols, double* a, double* tau, double* work, LapackInt work_size);
/// The first `cols` columns of Q, from as many of them.
LapackInt lapack_orgqr(LapackInt rows, LapackInt cols, float* a, const float* tau, float* work, LapackInt work_size);
LapackInt lapack_orgqr(LapackInt rows, LapackInt cols, double* a, const double* tau, double* work, LapackInt work_size);

/// U (rows x k), descending singular values, V^T (k x cols), with k the shorter side; `a` is lost.
LapackInt lapack_gesdd(LapackInt rows, LapackInt cols, float* a, float* values, float* u, float* vt, float* work,
                       LapackInt work_size, LapackInt* iwork);
LapackInt lapack_gesdd(LapackInt rows, LapackInt cols, double* a, double* values, double* u, double* vt, double* work,
                       LapackInt work_size, LapackInt* iwork);

}  // namespace stepfuse::runtime
