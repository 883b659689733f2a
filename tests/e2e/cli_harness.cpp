// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/e2e/cli_harness.h"

#include "ir/support/float16.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>
#include <stdexcept>
#include <sys/wait.h>

#include <gtest/gtest.h>

namespace stepfuse::e2e {

namespace {

size_t count(const std::vector<int64_t>& shape) {
  return static_cast<size_t>(std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()));
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<float> random_values(size_t size, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<float> values(size);
  // Only the generator is specified to the bit; distributions are not.
  for (float& value : values) value = static_cast<float>(generator()) * 0x1p-31F - 1.0F;
  return values;
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

FileTensor f32(std::vector<int64_t> shape, const std::vector<float>& values) {
  return {"F32", std::move(shape), bytes_of(values)};
}

FileTensor random_f32(std::vector<int64_t> shape, uint32_t seed) {
  const size_t size = count(shape);
  return f32(std::move(shape), random_values(size, seed));
}

FileTensor random_bf16(std::vector<int64_t> shape, uint32_t seed) {
  std::vector<uint16_t> halves;
  for (float value : random_values(count(shape), seed)) halves.push_back(bf16_from_f32(value));
  return {"BF16", std::move(shape), bytes_of(halves)};
}

std::vector<float> floats(const FileTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

void CliFolder::write(const std::string& file, const FileTensors& tensors) const {
  std::vector<runtime::TensorToWrite> list;
  for (const auto& [name, tensor] : tensors) list.push_back({name, tensor.dtype, tensor.shape, tensor.bytes.data()});
  const Outcome written = runtime::write_safetensors(path(file), list, {{"format", "pt"}});
  if (!written) throw std::runtime_error(written.error().message);
}

void CliFolder::write_text(const std::string& file, const std::string& text) const {
  std::ofstream(path(file), std::ios::binary) << text;
}

FileTensors CliFolder::read(const std::string& file) const {
  const auto opened = runtime::SafetensorsFile::open(path(file));
  if (!opened) throw std::runtime_error(opened.error().message);
  FileTensors tensors;
  for (const runtime::TensorEntry& entry : opened->tensors()) {
    const std::byte* data = opened->data(entry);
    tensors[entry.name] = {entry.dtype, entry.shape, {data, data + entry.bytes}};
  }
  return tensors;
}

WithVariable::WithVariable(const char* name, const std::string& value) : name_(name) {
  if (const char* before = std::getenv(name); before != nullptr) before_ = before;
  ::setenv(name, value.c_str(), 1);
}

WithVariable::~WithVariable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }

std::string CliFolder::read_text(const std::string& file) const { return text_of(path(file)); }

std::vector<std::string> CliFolder::files() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

CommandResult CliFolder::run(const std::string& arguments) const {
  const std::string command = "cd '" + folder_.path().string() + "' && '" STEPFUSE_BINARY "' " + arguments + " >'" +
                              (logs_ / "out") + "' 2>'" + (logs_ / "err") + "'";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(logs_ / "out"), text_of(logs_ / "err")};
}

}  // namespace stepfuse::e2e
