// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/safetensors.h"

#include "tests/support/temporary_folder.h"

#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

namespace stepfuse::runtime {
namespace {

class Safetensors : public testing::Test {
 protected:
  void write_raw(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }

  /// A file with this header text and `data_bytes` zeros; `claimed` overrides the length field.
  void write_file(const std::string& header, size_t data_bytes, uint64_t claimed = 0) const {
    std::string bytes(8, '\0');
    const uint64_t length = claimed != 0 ? claimed : header.size();
    std::memcpy(bytes.data(), &length, 8);
    write_raw(bytes + header + std::string(data_bytes, '\0'));
  }

  /// The error of opening the file; it must name the file whichever way it is opened.
  std::string error() const {
    const auto file = SafetensorsFile::open(path_);
    const auto header = SafetensorsFile::open_header(path_);
    EXPECT_FALSE(file.has_value());
    EXPECT_FALSE(header.has_value());
    if (file || header) return "no error";
    EXPECT_EQ(file.error().message, header.error().message);
    EXPECT_NE(file.error().message.find(path_.string()), std::string::npos) << file.error().message;
    return file.error().message;
  }

  size_t files_in_folder() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  const tests::TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path(), path_ = folder_ / "model.safetensors";
};

TEST_F(Safetensors, RoundTrip) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> weights = {1.5f, -0.0f, nan, std::numeric_limits<float>::infinity(), 1e-45f, 6};
  const std::vector<uint16_t> bits = {0x7fc1, 0x8000, 1};
  const std::vector<double> scalar = {3.25};
  ASSERT_TRUE(write_safetensors(path_,
                                {{"layer.w", "F32", {2, 3}, weights.data()},
                                 {"b", "BF16", {3}, bits.data()},
                                 {"empty", "F16", {0, 5}, nullptr},
                                 {"step \"é\"", "F64", {}, scalar.data()}},
                                {{"format", "pt"}, {"made by", "a test"}})
                  .has_value());
  const auto file = SafetensorsFile::open(path_);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(file->path(), path_);
  EXPECT_EQ(file->metadata().at("made by"), "a test");
  ASSERT_EQ(file->tensors().size(), 4u);
  const TensorEntry* w = file->find("layer.w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(w->dtype, "F32");
  EXPECT_EQ(std::memcmp(file->data(*w), weights.data(), 24), 0);
  EXPECT_EQ(std::memcmp(file->data(*file->find("b")), bits.data(), 6), 0);
  EXPECT_EQ(std::memcmp(file->data(*file->find("step \"é\"")), scalar.data(), 8), 0);
  EXPECT_EQ(file->find("empty")->bytes, 0u);
  EXPECT_EQ(file->find("absent"), nullptr);
  for (const TensorEntry& entry : file->tensors()) {
    const uintptr_t element = entry.dtype == "F64" ? 8 : entry.dtype == "F32" ? 4 : 2;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(file->data(entry)) % element, 0u) << entry.name;
  }
  EXPECT_EQ(reinterpret_cast<uintptr_t>(file->data(file->tensors().front())) % 64, 0u);
  EXPECT_EQ(files_in_folder(), 1u);
}

TEST_F(Safetensors, OrderIsByOffset) {
  write_file(
      R"({"z":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"a":{"dtype":"U8","shape":[1],"data_offsets":[2,3]},)"
      R"("none":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}}   )",
      3);
  const auto file = SafetensorsFile::open_header(path_);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  ASSERT_EQ(file->tensors().size(), 3u);
  EXPECT_EQ(file->tensors()[0].name, "z");
  EXPECT_EQ(file->tensors()[1].name, "none");
  EXPECT_EQ(file->tensors()[2].name, "a");
  EXPECT_THROW(static_cast<void>(file->data(file->tensors()[0])), InternalError);
}

TEST_F(Safetensors, FileWithoutTensors) {
  write_file("{}", 0);
  const auto file = SafetensorsFile::open(path_);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_TRUE(file->tensors().empty());
}

TEST_F(Safetensors, LyingHeadersAreRefused) {
  const auto one = [](const std::string& fields) { return "{\"w\":{" + fields + "}}"; };
  struct Case {
    std::string header;
    size_t data_bytes;
    std::string expected;
  };
  const std::string f32 = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  const Case cases[] = {
      {"{\"w\":{" + f32 + "},\"w\":{" + f32 + "}}", 8, "names 'w' twice"},
      {one(f32 + R"(,"shape":[2])"), 8, "names 'shape' twice"},
      {one(f32), 7, "tensor 'w': it ends at byte 8 of the data, of which the file has 7"},
      {one(f32), 9, "1 bytes after the last tensor belong to none"},
      {one(R"("dtype":"F33","shape":[2],"data_offsets":[0,8])"), 8, "tensor 'w': unknown dtype 'F33'"},
      {one(R"("dtype":7,"shape":[2],"data_offsets":[0,8])"), 8, "tensor 'w': it has no 'dtype'"},
      {one(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"), 8, "takes 12 bytes, its offsets 0 to 8 leave 8"},
      {one(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), 8, "'shape' holds -2"},
      {one(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"), 8, "'shape' holds 2.0"},
      {one(R"("dtype":"F32","shape":["2"],"data_offsets":[0,8])"), 8, "'shape' holds string"},
      {one(R"("dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8])"), 8, "holds 18446744073709551615"},
      {one(R"("dtype":"F32","shape":[1e400],"data_offsets":[0,8])"), 8, "not valid JSON"},
      {one(R"("dtype":"F32","shape":2,"data_offsets":[0,8])"), 8, "it has no list 'shape'"},
      {one(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0])"), 0, "more than 2^63 bytes"},
      {one(R"("dtype":"U8","shape":[4611686018427387904],"data_offsets":[0,4611686018427387904])"), 8,
       "it ends at byte"},
      {one(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), 8, "not a begin and an end"},
      {one(R"("dtype":"F32","shape":[2],"data_offsets":[0])"), 8, "not a begin and an end"},
      {one(R"("dtype":"F32","shape":[2])"), 8, "it has no list 'data_offsets'"},
      {one(R"("dtype":"F32","shape":[2],"data_offsets":[4,12])"), 12, "tensor 'w': a hole of 4 bytes"},
      {"{\"w\":{" + f32 + R"(},"v":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12, "tensor 'v': it overlaps"},
      {"{\"w\":{" + f32 + R"(},"v":{"dtype":"F32","shape":[2],"data_offsets":[12,20]}})", 20,
       "tensor 'v': a hole of 4"},
      {"{\"w\":3}", 0, "tensor 'w': its entry is not a JSON object"},
      {"[1]", 0, "not a JSON object"},
      {"{\"w\":", 0, "not valid JSON"},
      {"", 1, "not valid JSON"},
      {"{\"\xff\":1}", 0, "not valid JSON"},
      {std::string(100000, '['), 0, "not valid JSON"},
      {"{\"__metadata__\":3}", 0, "'__metadata__' is not a JSON object"},
      {"{\"__metadata__\":{\"a\":1}}", 0, "metadata 'a' is not a string"},
      {"{\"__metadata__\":{\"a\":\"x\",\"a\":\"y\"}}", 0, "names 'a' twice"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.header.substr(0, 200));
    write_file(c.header, c.data_bytes);
    const std::string message = error();
    EXPECT_NE(message.find(c.expected), std::string::npos) << message;
    EXPECT_LT(message.size(), 600u);
  }
}

TEST_F(Safetensors, LyingLengthsAreRefused) {
  write_file("{}", 0, 3);
  EXPECT_NE(error().find("claims a header of 3 bytes, but only 2 follow"), std::string::npos) << error();
  write_file("{}", 0, 100'000'001);
  EXPECT_NE(error().find("the limit is 100000000"), std::string::npos) << error();
  write_file("{}", 0, std::numeric_limits<uint64_t>::max());
  EXPECT_NE(error().find("the limit is"), std::string::npos) << error();
  write_raw("");
  EXPECT_NE(error().find("has 0 bytes, too few"), std::string::npos) << error();
  write_raw("1234567");
  EXPECT_NE(error().find("has 7 bytes, too few"), std::string::npos) << error();
}

TEST_F(Safetensors, EveryTruncationIsRefused) {
  const std::vector<float> values(10, 1.0f);
  ASSERT_TRUE(write_safetensors(path_, {{"w", "F32", {10}, values.data()}}).has_value());
  const auto size = std::filesystem::file_size(path_);
  for (size_t bytes = 0; bytes < size; ++bytes) {
    std::filesystem::resize_file(path_, size - bytes - 1);
    EXPECT_NE(error(), "no error") << "without the last " << bytes + 1 << " bytes";
  }
}

TEST_F(Safetensors, RandomDamageNeverCrashes) {
  const std::vector<float> values(10, 1.0f);
  ASSERT_TRUE(
      write_safetensors(path_, {{"w", "F32", {2, 3}, values.data()}, {"v", "BF16", {4}, values.data()}}).has_value());
  std::string good(std::filesystem::file_size(path_), '\0');
  std::ifstream(path_, std::ios::binary).read(good.data(), static_cast<std::streamsize>(good.size()));
  std::mt19937 generator(7);
  for (int round = 0; round < 1000; ++round) {
    std::string damaged = good;
    for (int i = 0; i < 3; ++i) damaged[generator() % damaged.size()] = static_cast<char>(generator() & 0xff);
    write_raw(damaged);
    const auto file = SafetensorsFile::open(path_);
    if (!file) continue;
    for (const TensorEntry& entry : file->tensors()) {
      std::vector<std::byte> copy(file->data(entry), file->data(entry) + entry.bytes);  // all of it can be read
      EXPECT_LE(entry.bytes, good.size());
    }
  }
}

TEST_F(Safetensors, WhatIsNoFileIsRefused) {
  const auto missing = SafetensorsFile::open(path_);
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, StatusCode::NotFound);
  const auto folder = SafetensorsFile::open(folder_);
  ASSERT_FALSE(folder.has_value());
  EXPECT_NE(folder.error().message.find("not a regular file"), std::string::npos);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_NE(error().find("not a regular file"), std::string::npos);
}

TEST_F(Safetensors, WriteRefusesWhatItCouldNotRead) {
  const float x = 0;
  struct Case {
    std::vector<TensorToWrite> tensors;
    std::string expected;
  };
  const Case cases[] = {
      {{{"w", "F32", {1}, &x}, {"w", "F32", {1}, &x}}, "tensor 'w': it would be written twice"},
      {{{"w", "float", {1}, &x}}, "tensor 'w': unknown dtype 'float'"},
      {{{"w", "F32", {-1}, &x}}, "tensor 'w': no shape: [-1]"},
      {{{"w", "F32", {int64_t{1} << 62, 4}, &x}}, "tensor 'w': no shape"},
      {{{"__metadata__", "F32", {1}, &x}}, "the format's own"},
      {{{"\xff", "F32", {1}, &x}}, "not UTF-8"},
  };
  for (const Case& c : cases) {
    const Outcome outcome = write_safetensors(path_, c.tensors);
    ASSERT_FALSE(outcome.has_value()) << c.expected;
    EXPECT_NE(outcome.error().message.find(c.expected), std::string::npos) << outcome.error().message;
    EXPECT_EQ(files_in_folder(), 0u);
  }
}

TEST_F(Safetensors, FailedWriteKeepsTheOldFileAndLeavesNothing) {
  const std::vector<float> values(100'000, 2.0f);
  ASSERT_TRUE(write_safetensors(path_, {{"old", "F32", {1}, values.data()}}).has_value());
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{4096, before.rlim_max};  // stands for a full disk
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  const Outcome outcome = write_safetensors(path_, {{"new", "F32", {100'000}, values.data()}});
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code, StatusCode::Io);
  EXPECT_EQ(files_in_folder(), 1u);
  const auto file = SafetensorsFile::open(path_);
  ASSERT_TRUE(file.has_value());
  EXPECT_NE(file->find("old"), nullptr);
}

TEST_F(Safetensors, WriteIntoAMissingOrOccupiedPlace) {
  const float x = 0;
  const Outcome nowhere = write_safetensors(folder_ / "absent" / "f", {{"w", "F32", {1}, &x}});
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_EQ(nowhere.error().code, StatusCode::Io);
  std::filesystem::create_directory(path_);
  EXPECT_FALSE(write_safetensors(path_, {{"w", "F32", {1}, &x}}).has_value());
  EXPECT_EQ(files_in_folder(), 1u);
}

TEST_F(Safetensors, ReplacingAnOpenFileLeavesItsReaderAlone) {
  const float one = 1, two = 2;
  ASSERT_TRUE(write_safetensors(path_, {{"w", "F32", {1}, &one}}).has_value());
  auto file = SafetensorsFile::open(path_);
  ASSERT_TRUE(file.has_value());
  ASSERT_TRUE(write_safetensors(path_, {{"w", "F32", {1}, &two}}).has_value());
  const SafetensorsFile moved = std::move(*file);
  float seen = 0;
  std::memcpy(&seen, moved.data(*moved.find("w")), 4);
  EXPECT_EQ(seen, 1.0f);
}

}  // namespace
}  // namespace stepfuse::runtime
