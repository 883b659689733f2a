// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/lapack.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

// LAPACK as the serial OpenBLAS archive carries it, by the calling convention of gfortran: everything by address, and
// the length of each CHARACTER argument at the end. It keeps no state between calls, so that threads may enter it at
// once (its products use the buffers that gemm_openblas.cpp hands out).
extern "C" {
using Int = stepfuse::runtime::LapackInt;
void ssyevd_(const char* job, const char* triangle, const Int* n, float* a, const Int* lda, float* w, float* work,
             const Int* lwork, Int* iwork, const Int* liwork, Int* info, size_t, size_t);
void dsyevd_(const char* job, const char* triangle, const Int* n, double* a, const Int* lda, double* w, double* work,
             const Int* lwork, Int* iwork, const Int* liwork, Int* info, size_t, size_t);
void sgeqrf_(const Int* m, const Int* n, float* a, const Int* lda, float* tau, float* work, const Int* lwork,
             Int* info);
void dgeqrf_(const Int* m, const Int* n, double* a, const Int* lda, double* tau, double* work, const Int* lwork,
             Int* info);
void sorgqr_(const Int* m, const Int* n, const Int* k, float* a, const Int* lda, const float* tau, float* work,
             const Int* lwork, Int* info);
void dorgqr_(const Int* m, const Int* n, const Int* k, double* a, const Int* lda, const double* tau, double* work,
             const Int* lwork, Int* info);
void sgesdd_(const char* job, const Int* m, const Int* n, float* a, const Int* lda, float* s, float* u, const Int* ldu,
             float* vt, const Int* ldvt, float* work, const Int* lwork, Int* iwork, Int* info, size_t);
void dgesdd_(const char* job, const Int* m, const Int* n, double* a, const Int* lda, double* s, double* u,
             const Int* ldu, double* vt, const Int* ldvt, double* work, const Int* lwork, Int* iwork, Int* info,
             size_t);

// All that these routines want of the Fortran runtime is the concatenation of two option letters. The link sends it
// here
// (--wrap=_gfortran_concat_string), so that nobody needs libgfortran.
void stepfuse_concat_string(size_t to_size, char* to, size_t a_size, const char* a, size_t b_size,
                            const char* b) __asm__("__wrap__gfortran_concat_string");
}

/// a followed by b in `to_size` characters: cut off, or filled up with blanks.
void stepfuse_concat_string(size_t to_size, char* to, size_t a_size, const char* a, size_t b_size, const char* b) {
  std::memset(to, ' ', to_size);
  const size_t from_a = std::min(a_size, to_size);
  std::memcpy(to, a, from_a);
  std::memcpy(to + from_a, b, std::min(b_size, to_size - from_a));
}

namespace stepfuse::runtime {

LapackInt lapack_syevd(LapackInt n, float* a, float* values, float* work, LapackInt work_size, LapackInt* iwork,
                       LapackInt iwork_size) {
  LapackInt info = 0;
  ssyevd_("V", "L", &n, a, &n, values, work, &work_size, iwork, &iwork_size, &info, 1, 1);
  return info;
}

LapackInt lapack_syevd(LapackInt n, double* a, double* values, double* work, LapackInt work_size, LapackInt* iwork,
                       LapackInt iwork_size) {
  LapackInt info = 0;
  dsyevd_("V", "L", &n, a, &n, values, work, &work_size, iwork, &iwork_size, &info, 1, 1);
  return info;
}

LapackInt lapack_geqrf(LapackInt rows, LapackInt cols, float* a, float* tau, float* work, LapackInt work_size) {
  LapackInt info = 0;
  sgeqrf_(&rows, &cols, a, &rows, tau, work, &work_size, &info);
  return info;
}

LapackInt lapack_geqrf(LapackInt rows, LapackInt cols, double* a, double* tau, double* work, LapackInt work_size) {
  LapackInt info = 0;
  dgeqrf_(&rows, &cols, a, &rows, tau, work, &work_size, &info);
  return info;
}

LapackInt lapack_orgqr(LapackInt rows, LapackInt cols, float* a, const float* tau, float* work, LapackInt work_size) {
  LapackInt info = 0;
  sorgqr_(&rows, &cols, &cols, a, &rows, tau, work, &work_size, &info);
  return info;
}

LapackInt lapack_orgqr(LapackInt rows, LapackInt cols, double* a, const double* tau, double* work,
                       LapackInt work_size) {
  LapackInt info = 0;
  dorgqr_(&rows, &cols, &cols, a, &rows, tau, work, &work_size, &info);
  return info;
}

LapackInt lapack_gesdd(LapackInt rows, LapackInt cols, float* a, float* values, float* u, float* vt, float* work,
                       LapackInt work_size, LapackInt* iwork) {
  LapackInt info = 0;
  const LapackInt k = std::min(rows, cols);
  sgesdd_("S", &rows, &cols, a, &rows, values, u, &rows, vt, &k, work, &work_size, iwork, &info, 1);
  return info;
}

LapackInt lapack_gesdd(LapackInt rows, LapackInt cols, double* a, double* values, double* u, double* vt, double* work,
                       LapackInt work_size, LapackInt* iwork) {
  LapackInt info = 0;
  const LapackInt k = std::min(rows, cols);
  dgesdd_("S", &rows, &cols, a, &rows, values, u, &rows, vt, &k, work, &work_size, iwork, &info, 1);
  return info;
}

}  // namespace stepfuse::runtime
