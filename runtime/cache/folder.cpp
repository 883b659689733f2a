// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/folder.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

namespace stepfuse::runtime {

namespace {

namespace fs = std::filesystem;

constexpr mode_t kWritableByOthers = S_IWGRP | S_IWOTH;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool is_absolute(const std::string& path) { return path.starts_with('/'); }

tl::unexpected<Status> untrusted(const fs::path& path, std::string_view why) {
  return with_hint(fail(StatusCode::Environment, "{} {}", path.string(), why),
                   "mend its owner and rights, or set STEPFUSE_CACHE_DIR to a folder of your own");
}

tl::unexpected<Status> failed(const fs::path& path, int error) {
  return fail(error == ENOENT ? StatusCode::NotFound : StatusCode::Io, "{}: {}", path.string(), error_text(error));
}

/// Goes down a path from the root, component by component, so that what was checked is what is used.
class Walk {
 public:
  Walk(FolderRole role, uid_t uid) : role_(role), uid_(uid) {}

  Result<Fd> run(const fs::path& canonical_parent, const fs::path& last) {
    STEPFUSE_TRY(go_to(canonical_parent));
    STEPFUSE_TRY(enter(at_.get(), last, true));
    return std::move(at_);
  }

  Result<Fd> run_to_file(const fs::path& canonical_parent, const fs::path& last) {
    STEPFUSE_TRY(go_to(canonical_parent));
    path_ /= last;
    // Not blocking, should it be a pipe.
    Fd file(::openat(at_.get(), last.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file && errno == ELOOP) return untrusted(path_, "is a symbolic link");
    struct stat info{};
    if (!file || ::fstat(file.get(), &info) != 0) return failed(path_, errno);
    if (!S_ISREG(info.st_mode)) return untrusted(path_, "is not a regular file");
    STEPFUSE_TRY(check_last(info));
    return file;
  }

 private:
  Outcome go_to(const fs::path& canonical) {
    STEPFUSE_TRY(enter(AT_FDCWD, "/", false));
    for (const fs::path& part : canonical.relative_path()) STEPFUSE_TRY(enter(at_.get(), part, false));
    return {};
  }

  Outcome enter(int above, const fs::path& part, bool last) {
    path_ /= part;
    int not_made = 0;
    if (role_ == FolderRole::Live && ::mkdirat(above, part.c_str(), 0700) != 0 && errno != EEXIST) {
      if (errno != EROFS && errno != EACCES) return failed(path_, errno);
      not_made = errno;  // no matter, if it is there
    }
    struct stat info{};
    if (::fstatat(above, part.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      const int error = errno == ENOENT && not_made != 0 ? not_made : errno;
      return role_ == FolderRole::Live ? fail(StatusCode::Io, "{}: {}", path_.string(), error_text(error))
                                       : failed(path_, error);
    }
    if (S_ISLNK(info.st_mode)) return untrusted(path_, "is a symbolic link");
    if (!S_ISDIR(info.st_mode)) return untrusted(path_, "is not a folder");
    Fd next(::openat(above, part.c_str(), (last ? O_RDONLY : O_PATH) | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!next || ::fstat(next.get(), &info) != 0) return failed(path_, errno);
    STEPFUSE_TRY(last ? check_last(info) : check_above(info));
    at_ = std::move(next);
    return {};
  }

  Outcome check_last(const struct stat& info) const {
    if (info.st_uid != uid_ && !(role_ == FolderRole::Layer && info.st_uid == 0))
      return untrusted(path_, fmt::format("belongs to user {}, not to {}", info.st_uid, uid_));
    if ((info.st_mode & kWritableByOthers) != 0)
      return untrusted(path_, fmt::format("is writable by others (mode {:o})", info.st_mode & 07777));
    return {};
  }

  Outcome check_above(const struct stat& info) const {
    if (info.st_uid != uid_ && info.st_uid != 0)
      return untrusted(path_, fmt::format("belongs to user {}, neither to {} nor to root", info.st_uid, uid_));
    // With the sticky bit nobody else can exchange the next component, whose owner is checked in turn.
    if ((info.st_mode & S_IWOTH) != 0 && (info.st_mode & S_ISVTX) == 0)
      return untrusted(path_, "is writable by everyone and has no sticky bit");
    return {};
  }

  FolderRole role_;
  uid_t uid_;
  fs::path path_;
  Fd at_;
};

/// A path in two parts. Links above its last component are the owner's affair: they are resolved, and what they lead to
/// is checked.
struct SplitPath {
  fs::path parent, last;
  std::string text() const { return (parent / last).string(); }
};

Result<SplitPath> split_path(const std::string& path) {
  std::error_code error;
  fs::path full = fs::absolute(path, error).lexically_normal();
  if (!full.has_filename()) full = full.parent_path();
  if (error || !full.has_filename()) return untrusted(path, "cannot be a cache folder");
  SplitPath split{fs::weakly_canonical(full.parent_path(), error), full.filename()};
  if (error) return failed(full, error.value());
  return split;
}

}  // namespace

void warn_once(const Log& log, const std::string& what, const Status& why) {
  log.write_once(LogLevel::Warn, what,
                 fmt::format("{}: {}{}{}", what, why.message, why.hint.empty() ? "" : "; ", why.hint));
}

CacheEnvironment CacheEnvironment::of_process() {
  return {variable("XDG_CACHE_HOME"), variable("HOME"), variable("TMPDIR"), ::geteuid()};
}

Result<CacheFolder> open_cache_folder(const std::string& path, FolderRole role, uid_t uid) {
  STEPFUSE_ASSIGN(const SplitPath split, split_path(path));
  STEPFUSE_ASSIGN(Fd fd, Walk(role, uid).run(split.parent, split.last));
  return CacheFolder{split.text(), std::move(fd)};
}

Result<CacheFolder> open_cache_file(const std::string& path, uid_t uid) {
  STEPFUSE_ASSIGN(const SplitPath split, split_path(path));
  STEPFUSE_ASSIGN(Fd fd, Walk(FolderRole::Layer, uid).run_to_file(split.parent, split.last));
  return CacheFolder{split.text(), std::move(fd)};
}

std::vector<std::string> live_folder_candidates(const std::string& cache_dir, const CacheEnvironment& environment) {
  if (!cache_dir.empty()) return {cache_dir};
  std::vector<std::string> paths;
  if (is_absolute(environment.xdg_cache_home)) {
    paths.push_back(environment.xdg_cache_home + "/stepfuse");
  } else if (is_absolute(environment.home)) {
    paths.push_back(environment.home + "/.cache/stepfuse");
  }
  const std::string temporary = is_absolute(environment.tmpdir) ? environment.tmpdir : "/tmp";
  paths.push_back(fmt::format("{}/stepfuse-{}", temporary, environment.uid));
  return paths;
}

Result<CacheFolder> open_live_folder(const std::string& cache_dir, const CacheEnvironment& environment, FolderRole role,
                                     const Log& log) {
  const std::vector<std::string> candidates = live_folder_candidates(cache_dir, environment);
  std::string tried;
  Status last{StatusCode::NotFound, "there is no cache folder", ""};
  for (const std::string& path : candidates) {
    auto folder = open_cache_folder(path, role, environment.uid);
    if (folder) {
      const bool fallback = cache_dir.empty() && path == candidates.back();
      if (fallback && role == FolderRole::Live)
        log.write_once(LogLevel::Warn, "cache-fallback",
                       fmt::format("kernels are kept in {}: {}; set HOME or STEPFUSE_CACHE_DIR to a lasting folder",
                                   folder->path, tried.empty() ? "HOME is not set" : tried));
      return folder;
    }
    last = std::move(folder.error());
    if (last.code == StatusCode::Environment) break;
    tried = last.message;
  }
  if (last.code == StatusCode::Io && last.hint.empty())
    last.hint = "set STEPFUSE_CACHE_DIR to a folder you may write to";
  if (last.code != StatusCode::NotFound) warn_once(log, "kernels are kept in memory only", last);
  return fail(std::move(last));
}

}  // namespace stepfuse::runtime
