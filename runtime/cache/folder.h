// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/support/log.h"
#include "ir/support/status.h"
#include "runtime/cache/file_ops.h"

#include <string>
#include <vector>

namespace stepfuse::runtime {

/// What of the process's surroundings says where the cache lies.
struct CacheEnvironment {
  std::string xdg_cache_home, home, tmpdir;
  uid_t uid = 0;

  static CacheEnvironment of_process();
};

enum class FolderRole : uint8_t {
  Live,          // ours; made when it is not there
  LiveReadOnly,  // ours; never made
  Layer          // ours or root's; never made
};

/// An open folder or file that was checked.
struct CacheFolder {
  std::string path;
  Fd fd;
};

/// Opens a folder that nobody but its owner (and root) can put files in: an entry is code that we run. The last
/// component must not be a symbolic link, nor writable by group or others; folders above it belong to root or the user,
/// and one that all may write to has the sticky bit. NotFound: it is not there; Io: it cannot be made or opened;
/// Environment: it is not to be trusted, and why.
Result<CacheFolder> open_cache_folder(const std::string& path, FolderRole role, uid_t uid);

/// Where the live folder is looked for: the setting alone if there is one, else stepfuse in $XDG_CACHE_HOME, else in
/// $HOME/.cache, else stepfuse-$UID among the temporary files. Relative variables do not count.
std::vector<std::string> live_folder_candidates(const std::string& cache_dir, const CacheEnvironment& environment);

/// The first candidate that can be made; one that cannot be trusted ends the search. Says once what is wrong.
/// Without a folder the error says why.
Result<CacheFolder> open_live_folder(const std::string& cache_dir, const CacheEnvironment& environment, FolderRole role,
                                     const Log& log);

/// Opens a file that nobody but its owner, the user or root, can exchange or write, below folders as above. Not a
/// symbolic link.
Result<CacheFolder> open_cache_file(const std::string& path, uid_t uid);

/// A warning about `what`, with the reason and its hint.
void warn_once(const Log& log, const std::string& what, const Status& why);

}  // namespace stepfuse::runtime
