// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/layer.h"

#include <array>

namespace stepfuse::runtime {

namespace {

constexpr std::array<const char*, 2> kSystemLayers{"/usr/share/stepfuse/cache", "/var/cache/stepfuse"};

Result<CacheLayer> open_layer(const std::string& path, uid_t uid) {
  if (is_bundle_path(path)) {
    STEPFUSE_ASSIGN(auto bundle, Bundle::open(path, uid));
    return CacheLayer{bundle->path(), Fd(), bundle};
  }
  STEPFUSE_ASSIGN(CacheFolder folder, open_cache_folder(path, FolderRole::Layer, uid));
  return CacheLayer{std::move(folder.path), std::move(folder.fd), nullptr};
}

}  // namespace

EntryRead CacheLayer::read(FileOps& ops, const Key& key, uid_t uid) const {
  if (bundle != nullptr) return bundle->read(key.kind, key.hash);
  return read_entry_file(ops, folder.get(), entry_name(key), {uid, true, std::nullopt});
}

std::vector<CacheLayer> open_layers(const std::vector<std::string>& paths, const CacheEnvironment& environment,
                                    const Log& log) {
  std::vector<CacheLayer> layers;
  const auto add = [&](const std::string& path, bool named) {
    auto layer = open_layer(path, environment.uid);
    if (layer) {
      layers.push_back(std::move(*layer));
    } else if (named || layer.error().code == StatusCode::Environment) {
      if (layer.error().code == StatusCode::Environment) layer.error().hint = "mend its owner and rights";
      const char* kind = is_bundle_path(path) ? "bundle" : "cache folder";
      warn_once(log, fmt::format("{} {} is left out", kind, path), layer.error());
    }
  };
  for (const std::string& path : paths) add(path, true);
  for (const char* path : kSystemLayers) add(path, false);
  return layers;
}

}  // namespace stepfuse::runtime
