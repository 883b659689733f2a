// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/log.h"
#include "runtime/cache/bundle_file.h"
#include "runtime/cache/folder.h"

#include <memory>
#include <string>
#include <vector>

namespace stepfuse::runtime {

/// A read-only source of entries below the live folder: a folder, or a bundle.
struct CacheLayer {
  std::string path;
  Fd folder;                             // of a folder
  std::shared_ptr<const Bundle> bundle;  // of a bundle

  EntryRead read(FileOps& ops, const Key& key, uid_t uid) const;
};

/// The layers that are there and can be trusted: `paths`, of which those that end in ".sfb" are bundles, then the
/// system's folders. Says once what is wrong.
std::vector<CacheLayer> open_layers(const std::vector<std::string>& paths, const CacheEnvironment& environment,
                                    const Log& log);

}  // namespace stepfuse::runtime
