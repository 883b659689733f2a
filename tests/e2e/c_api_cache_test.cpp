// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Metrics and the disk cache through the C interface.
#include "tests/e2e/c_api_fixture.h"
#include "tests/support/cache_folder.h"

#include <sys/stat.h>

namespace stepfuse::tests {
namespace {

/// Contexts over one cache folder of the test's own.
class CApiCache : public testing::Test {
 protected:
  stepfuse_context* open(const char* cache) {
    const stepfuse_option settings[] = {{"cache", cache}, {"cache_dir", folder_.c_str()}, {"jobs", "1"}};
    stepfuse_context_options options = stepfuse_context_options_init();
    options.settings = settings;
    options.settings_count = 3;
    stepfuse_context* context = nullptr;
    EXPECT_OK(stepfuse_context_create(&options, &context));
    return context;
  }
  void prepare_adamw(stepfuse_context* context) {
    stepfuse_optimizer* optimizer = nullptr;
    uint32_t group = 0, id = 0;
    const int64_t shape[] = {4, 4};
    stepfuse_parameter parameter = stepfuse_parameter_init();
    parameter.name = "w";
    parameter.ndim = 2;
    parameter.shape = shape;
    ASSERT_OK(stepfuse_optimizer_create(context, &optimizer));
    ASSERT_OK(stepfuse_optimizer_add_group(optimizer, "adamw", nullptr, 0, &group));
    ASSERT_OK(stepfuse_optimizer_add_parameter(optimizer, group, &parameter, &id));
    ASSERT_OK(stepfuse_optimizer_prepare(optimizer, nullptr));
    ASSERT_OK(stepfuse_optimizer_destroy(optimizer));
  }
  static stepfuse_metrics metrics(stepfuse_context* context) {
    stepfuse_metrics out = stepfuse_metrics_init();
    EXPECT_OK(stepfuse_context_metrics(context, &out));
    return out;
  }
  static std::string path(stepfuse_context* context) {
    char buffer[4096] = "unwritten";
    size_t needed = 0;
    EXPECT_OK(stepfuse_cache_path(context, buffer, sizeof buffer, &needed));
    EXPECT_EQ(needed, std::strlen(buffer) + 1);
    return buffer;
  }

  const TemporaryFolder top_;
  const std::string folder_ = top_ / "cache";
};

TEST_F(CApiCache, CountsWhatWasCompiledKeptAndFound) {
  stepfuse_context* cold = open("on");
  prepare_adamw(cold);
  const stepfuse_metrics first = metrics(cold);
  EXPECT_EQ(first.compiled, 1);
  EXPECT_EQ(first.disk_hits, 0);
  EXPECT_GE(first.published, 1);
  EXPECT_GT(first.bytes_written, 0);
  EXPECT_GT(first.compile_seconds, 0);
  // Contexts with other settings have a cache of their own: this one starts without kernels in memory.
  stepfuse_context* warm = open("readonly");
  prepare_adamw(warm);
  const stepfuse_metrics second = metrics(warm);
  EXPECT_EQ(second.compiled, 0);
  EXPECT_EQ(second.disk_hits, 1);
  EXPECT_EQ(second.published, 0);
  EXPECT_GT(second.bytes_read, 0);
  prepare_adamw(warm);
  EXPECT_EQ(metrics(warm).memory_hits, 1);
  EXPECT_OK(stepfuse_context_destroy(cold));
  EXPECT_OK(stepfuse_context_destroy(warm));
}

TEST_F(CApiCache, ThePathIsOursAlone) {
  stepfuse_context* context = open("on");
  prepare_adamw(context);
  EXPECT_EQ(path(context), folder_);
  struct stat info{};
  ASSERT_EQ(::stat(folder_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
  size_t needed = 0;
  EXPECT_OK(stepfuse_cache_path(context, nullptr, 0, &needed));
  EXPECT_EQ(needed, folder_.size() + 1);
  char small[4];
  EXPECT_EQ(stepfuse_cache_path(context, small, sizeof small, &needed), STEPFUSE_BUFFER_TOO_SMALL);
  EXPECT_OK(stepfuse_context_destroy(context));
}

TEST_F(CApiCache, PruneAndClearRemoveEntries) {
  stepfuse_context* context = open("on");
  prepare_adamw(context);
  const auto entries = static_cast<int64_t>(files_below(folder_).size());
  ASSERT_GE(entries, 2);  // a kernel and a shape
  int64_t removed = -1;
  EXPECT_OK(stepfuse_cache_prune(context, -1, &removed));
  EXPECT_EQ(removed, 0);
  EXPECT_OK(stepfuse_cache_clear(context, &removed));
  EXPECT_GE(removed, 2);
  EXPECT_OK(stepfuse_cache_clear(context, &removed));
  EXPECT_EQ(removed, 0);
  prepare_adamw(context);  // memory still has the kernel
  EXPECT_EQ(metrics(context).compiled, 1);
  EXPECT_OK(stepfuse_context_destroy(context));
}

TEST_F(CApiCache, OffMeansNoFolder) {
  stepfuse_context* context = open("off");
  prepare_adamw(context);
  EXPECT_EQ(path(context), "");
  expect_status(stepfuse_cache_clear(context, nullptr), STEPFUSE_ENVIRONMENT, "", "");
  EXPECT_FALSE(std::filesystem::exists(folder_));
  EXPECT_OK(stepfuse_context_destroy(context));
}

}  // namespace
}  // namespace stepfuse::tests
