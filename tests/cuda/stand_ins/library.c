// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
// A library that only knows its version, for tests of the search.
int stand_in_version(void) { return STAND_IN_VERSION; }
