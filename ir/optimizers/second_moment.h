// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/optimizers/orthogonal_rule.h"

namespace stepfuse::ir {

/// Second moments of an orthogonalised update; each is what OrthogonalRule::adapt wants, with a state of its own and
/// the hyperparameters beta2 and, where it is the user's, eps.
using Adapt = std::function<ValueId(Builder&, const OrthogonalRule::Update&)>;

/// Per element: O / (sqrt(v) + eps), v the average of O^2; no bias correction (AdaMuon, arXiv 2507.11005).
Adapt adamuon(double beta2, double eps);
/// Per row of a square or tall matrix, per column of a wide one: O / sqrt(max(v, eps)), v the average of the mean of
/// O^2, then the Frobenius norm of O again (NorMuon, arXiv 2510.05491, as emerging-optimizers has it).
Adapt normuon_by_shape(double beta2, double eps);
/// The same per row always, with O / (sqrt(v) + 1e-8), as dion has it.
Adapt normuon_by_row(double beta2);
/// One factor per matrix: |U| / (sqrt(v) + eps), U the direction before orthogonalisation, v the average of |G|^2
/// (NAMO, arXiv 2602.17080).
Adapt namo(double beta2, double eps);

}  // namespace stepfuse::ir
