// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/debug_fixture.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <unistd.h>

namespace stepfuse::test {

namespace fs = std::filesystem;

std::string TempFolder::read(const std::string& name) const {
  std::ifstream file(path(name), std::ios::binary);
  if (!file) throw std::runtime_error("no file " + path(name));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void TempFolder::write(const std::string& name, const std::string& text) const {
  std::ofstream(path(name), std::ios::binary) << text;
}

std::vector<std::string> TempFolder::files() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_.path())) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

int LoggedContext::count(std::string_view part) const {
  return static_cast<int>(std::count_if(messages->begin(), messages->end(), [&](const std::string& message) {
    return message.find(part) != std::string::npos;
  }));
}

LoggedContext make_context(const std::vector<std::pair<std::string, std::string>>& settings) {
  LoggedContext out{std::make_shared<std::vector<std::string>>(), nullptr};
  runtime::Context::Options options;
  for (const auto& [name, text] : settings) options.flags.push_back({name, text, "--" + name});
  options.log = [messages = out.messages](LogLevel level, std::string_view message) {
    messages->push_back(fmt::format("{}: {}", log_level_name(level), message));
  };
  out.context = runtime::Context::create(options).value();
  return out;
}

Values start_values(const std::vector<int64_t>& shape) {
  Values values(static_cast<size_t>(compiler::element_count(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(std::sin(static_cast<double>(i) + 1));
  return values;
}

Result<Values> run_steps(const LoggedContext& context, const std::string& rule, const std::vector<int64_t>& shape,
                         const ir::OptionList& options, const std::string& target) {
  runtime::OptimizerSettings settings;
  settings.context = context.context;
  settings.threads = 2;
  settings.target = target;
  STEPFUSE_ASSIGN(runtime::Optimizer optimizer, runtime::Optimizer::create(settings));
  STEPFUSE_ASSIGN(const uint32_t group, optimizer.add_group(rule, options));
  STEPFUSE_ASSIGN(const uint32_t index, optimizer.add_parameter(group, "w", {shape}));
  STEPFUSE_TRY(optimizer.prepare());
  Values values = start_values(shape);
  Values gradient(values.rbegin(), values.rend());
  STEPFUSE_TRY(optimizer.bind(index, values.data(), gradient.data()));
  for (int step = 0; step < 2; ++step) STEPFUSE_TRY(optimizer.step());
  return values;
}

}  // namespace stepfuse::test
