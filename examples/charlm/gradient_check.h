// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace charlm {

/// Compares every tensor's gradient with finite differences of the loss on a tiny model, prints one line per tensor,
/// and returns whether all agree.
bool check_gradients();

}  // namespace charlm
