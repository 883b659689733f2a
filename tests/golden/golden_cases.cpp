// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/golden_cases.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace stepfuse::golden {

namespace {

ToleranceClass parse_tolerance(const std::string& text) {
  static const std::map<std::string, ToleranceClass> kNames{{"elementwise_f32", ToleranceClass::ElementwiseF32},
                                                            {"elementwise_bf16", ToleranceClass::ElementwiseBf16},
                                                            {"ns_f32", ToleranceClass::NewtonSchulzF32},
                                                            {"ns_bf16", ToleranceClass::NewtonSchulzBf16}};
  return kNames.at(text);
}

GoldenCase parse_case(const nlohmann::json& entry) {
  GoldenCase golden;
  golden.name = entry.at("name");
  golden.recipe = entry.at("recipe");
  for (const auto& [key, value] : entry.at("options").items()) golden.options.emplace_back(key, value);
  golden.steps = entry.at("steps");
  golden.dtype = entry.at("dtype") == "bf16" ? ElementType::BF16 : ElementType::F32;
  golden.gradient_per_step = entry.at("gradients") == "per_step";
  golden.peer = entry.at("peer");
  golden.tolerance = parse_tolerance(entry.at("tolerance"));
  golden.bit_equal = entry.at("bit_equal");
  golden.bit_equal_states = entry.at("bit_equal_states");
  golden.file = entry.at("file");
  return golden;
}

std::vector<GoldenCase> load_manifest() {
  std::ifstream stream(data_path("cases.json"));
  if (!stream) throw std::runtime_error("cannot read " + data_path("cases.json"));
  const nlohmann::json manifest = nlohmann::json::parse(stream);
  std::vector<GoldenCase> cases;
  for (const auto& entry : manifest.at("cases")) cases.push_back(parse_case(entry));
  return cases;
}

runtime::SafetensorsFile open_or_throw(const std::string& path) {
  auto file = runtime::SafetensorsFile::open(path);
  if (!file) throw std::runtime_error(path + ": " + file.error().message);
  return std::move(*file);
}

ElementType parse_dtype(const runtime::TensorEntry& entry) {
  if (entry.dtype == "F32") return ElementType::F32;
  if (entry.dtype == "BF16") return ElementType::BF16;
  throw std::runtime_error(entry.name + " has type " + entry.dtype + "; goldens hold F32 and BF16");
}

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (double v : values) sum += v * v;
  return std::sqrt(sum);
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

/// u: half the distance from 1 to the next number of the type.
double unit_roundoff(ElementType dtype) { return dtype == ElementType::BF16 ? 0x1p-9 : 0x1p-24; }

double storage_error(const GoldenCase& golden) { return 4 * unit_roundoff(golden.dtype) * std::sqrt(golden.steps); }

testing::AssertionResult same_kind(const GoldenTensor& ours, const GoldenTensor& reference) {
  if (ours.dtype != reference.dtype) return testing::AssertionFailure() << "the element types differ";
  if (ours.shape != reference.shape)
    return testing::AssertionFailure() << "the shapes differ: " << testing::PrintToString(ours.shape) << " and "
                                       << testing::PrintToString(reference.shape);
  return testing::AssertionSuccess();
}

testing::AssertionResult same_bits(const GoldenTensor& ours, const GoldenTensor& reference) {
  if (ours.bytes == reference.bytes) return testing::AssertionSuccess();
  const std::vector<double> a = ours.values();
  const std::vector<double> b = reference.values();
  const auto width = ours.bytes.size() / a.size();
  const auto first = std::mismatch(ours.bytes.begin(), ours.bytes.end(), reference.bytes.begin()).first;
  const auto at = static_cast<std::size_t>(first - ours.bytes.begin()) / width;
  return testing::AssertionFailure() << fmt::format(
             "not bit-equal, first at element {}: ours is {:.9g}, the peer's is {:.9g}; the distance is {:.3g}", at,
             a[at], b[at], distance(a, b));
}

testing::AssertionResult within(double error, double allowed) {
  if (error <= allowed) return testing::AssertionSuccess();  // false for NaN as well
  return testing::AssertionFailure() << fmt::format("the distance to the peer is {:.3g}, allowed is {:.3g}", error,
                                                    allowed);
}

}  // namespace

std::string data_path(const std::string& file) {
  const char* elsewhere = std::getenv("GOLDEN_DATA");
  return (elsewhere != nullptr ? std::string(elsewhere) : STEPFUSE_SOURCE_DIR "/tests/golden/data") + "/" + file;
}

const std::vector<GoldenCase>& golden_cases() {
  static const std::vector<GoldenCase> kCases = load_manifest();
  return kCases;
}

const GoldenCase& golden_case(const std::string& name) {
  const auto& cases = golden_cases();
  const auto it =
      std::find_if(cases.begin(), cases.end(), [&](const GoldenCase& golden) { return golden.name == name; });
  if (it == cases.end()) throw std::runtime_error("cases.json has no case '" + name + "'");
  return *it;
}

std::vector<double> GoldenTensor::values() const {
  const std::size_t width = dtype == ElementType::BF16 ? 2 : 4;
  std::vector<double> result(bytes.size() / width);
  for (std::size_t i = 0; i < result.size(); ++i) {
    std::uint32_t bits = 0;
    // A bf16 is the upper half of an f32; this build is for little-endian machines, as safetensors is.
    std::memcpy(reinterpret_cast<std::byte*>(&bits) + (4 - width), bytes.data() + i * width, width);
    result[i] = std::bit_cast<float>(bits);
  }
  return result;
}

GoldenFile::GoldenFile(const GoldenCase& golden)
    : gradient_per_step_(golden.gradient_per_step), file_(open_or_throw(data_path(golden.file))) {
  const std::string prefix = "before.";
  for (const runtime::TensorEntry& entry : file_.tensors())
    if (entry.name.starts_with(prefix)) parameters_.push_back(entry.name.substr(prefix.size()));
}

GoldenTensor GoldenFile::gradient(const std::string& parameter, int step) const {
  return tensor(gradient_per_step_ ? "grad." + std::to_string(step) + "." + parameter : "grad." + parameter);
}

std::map<std::string, GoldenTensor> GoldenFile::states(const std::string& parameter) const {
  const std::string prefix = "state." + parameter + ".";
  std::map<std::string, GoldenTensor> result;
  for (const runtime::TensorEntry& entry : file_.tensors())
    if (entry.name.starts_with(prefix)) result[entry.name.substr(prefix.size())] = tensor(entry.name);
  return result;
}

GoldenTensor GoldenFile::tensor(const std::string& name) const { return read_tensor(file_, name); }

GoldenTensor read_tensor(const runtime::SafetensorsFile& file, const std::string& name) {
  const runtime::TensorEntry* entry = file.find(name);
  if (entry == nullptr) throw std::runtime_error(file.path() + " has no tensor '" + name + "'");
  const std::byte* data = file.data(*entry);
  return {parse_dtype(*entry), entry->shape, std::vector<std::byte>(data, data + entry->bytes)};
}

double update_tolerance(ToleranceClass tolerance, Numerics numerics) {
  switch (tolerance) {
    case ToleranceClass::ElementwiseF32:
      return 2e-6;  // about ten roundings of 2^-24 each, in a row, with room for cancellation in a lerp
    case ToleranceClass::ElementwiseBf16:
      return 1e-2;  // torch rounds every op to bf16: five roundings of 2^-9 each, and alpha of an add as well
    case ToleranceClass::NewtonSchulzF32:
      return 5e-5;  // five iterations multiply an f32 rounding by up to the slope of the polynomial at 1
    case ToleranceClass::NewtonSchulzBf16:
      // Rounding as torch does, we differ where a sum falls on the other side of a tie, which later iterations amplify.
      // Default may iterate in f32, and then sees the whole of torch's own error: up to 2.4e-2 at seven iterations.
      return numerics == Numerics::Strict ? 2e-2 : 3e-2;
  }
  throw std::logic_error("unknown tolerance class");
}

testing::AssertionResult parameter_agrees(const GoldenCase& golden, Numerics numerics, const GoldenTensor& ours,
                                          const GoldenTensor& reference, const GoldenTensor& before) {
  if (auto kind = same_kind(ours, reference); !kind) return kind;
  if (golden.bit_equal && numerics == Numerics::Strict) return same_bits(ours, reference);
  const std::vector<double> expected = reference.values();
  const double update = update_tolerance(golden.tolerance, numerics) * distance(expected, before.values());
  return within(distance(ours.values(), expected), update + storage_error(golden) * norm(expected));
}

testing::AssertionResult state_agrees(const GoldenCase& golden, Numerics numerics, const GoldenTensor& ours,
                                      const GoldenTensor& reference) {
  if (auto kind = same_kind(ours, reference); !kind) return kind;
  if (golden.bit_equal_states && numerics == Numerics::Strict) return same_bits(ours, reference);
  // A state is stored after each step: in f32 that is below the general bound, in bf16 it is the error.
  const double allowed = std::max(2e-6, storage_error(golden));
  const std::vector<double> expected = reference.values();
  return within(distance(ours.values(), expected), allowed * norm(expected));
}

}  // namespace stepfuse::golden
