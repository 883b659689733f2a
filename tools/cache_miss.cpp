// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tools/cache_miss.h"

#include "runtime/plan_kernels.h"
#include "tools/library.h"
#include "tools/model.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace stepfuse::tools {

namespace {

using Json = nlohmann::ordered_json;
using runtime::ListedEntry;

/// The kernels a shape entry names that the cache does not hold, or holds from another compiler.
std::vector<std::string> kernel_problems(const std::vector<std::byte>& payload, const std::vector<ListedEntry>& entries,
                                         std::string_view plugin_dir) {
  std::vector<std::string> problems;
  const std::string_view text(reinterpret_cast<const char*>(payload.data()), payload.size());
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("kernels")) return {"the entry names no kernels"};
  for (const Json& kernel : json["kernels"]) {
    const auto name = kernel.value("name", std::string());
    const auto hash = kernel.value("hash", std::string());
    std::string problem = "no entry has its key";
    for (const ListedEntry& entry : entries) {
      if (entry.hash != hash) continue;
      problem = entry.problem;
      if (problem.empty() && !entry.in_layer)
        problem = runtime::made_otherwise(entry.fields, entry.metadata, plugin_dir).value_or("");
      if (problem.empty()) break;
    }
    if (!problem.empty()) problems.push_back(fmt::format("kernel {} ({}): {}", name, hash.substr(0, 12), problem));
  }
  return problems;
}

/// Only looks: what is damaged stays where it is until a trainer meets it.
Outcome answer_from(ShapeAnswer& answer, const std::string& hash, const runtime::KeyFields& fields,
                    const std::vector<ListedEntry>& entries, const runtime::Context& context) {
  std::string problem;
  for (const ListedEntry& entry : entries) {
    if (entry.hash != hash || entry.kind != runtime::EntryKind::Shape) continue;
    if (!entry.problem.empty()) {
      problem = fmt::format("its entry cannot be used: {}", entry.problem);
      continue;
    }
    STEPFUSE_ASSIGN(const runtime::ShownEntry shown, show_entry(context.kernels().store(), hash, context.log()));
    answer.kernel_problems = kernel_problems(shown.payload, entries, context.settings().text("plugin_dir"));
    if (context.settings().is("cache", "refresh")) answer.why = "cache=refresh reads nothing";
    answer.hit = answer.kernel_problems.empty() && answer.why.empty();
    return {};
  }
  answer.why = problem;
  if (problem.empty()) answer.nearest = nearest_entry(entries, runtime::EntryKind::Shape, fields);
  return {};
}

}  // namespace

Result<std::vector<ShapeAnswer>> explain_misses(const Arguments& arguments) {
  STEPFUSE_ASSIGN(const ModelSource source, read_model_source(arguments));
  if (source.empty())
    return with_hint(fail(StatusCode::InvalidArgument, "cache why-miss needs --shape or --params"),
                     "give a shape, such as --shape 768x3072, a safetensors file or a manifest (*.toml)");
  STEPFUSE_ASSIGN(const Routing routing, Routing::create(arguments));
  STEPFUSE_ASSIGN(const auto shared, make_context(arguments, routing.settings()));
  const runtime::Context& context = *shared;
  if (context.settings().is("cache", "off"))
    return with_hint(fail(StatusCode::InvalidArgument, "the cache is off"), "set it to on, here or in the config");
  STEPFUSE_ASSIGN(const compiler::PlanOptions options, plan_options(context.settings()));
  if (options.target.name == "interp")
    return with_hint(
        fail(StatusCode::InvalidArgument, "--target interp uses no cache: the interpreter compiles nothing"),
        "use --target cpu");
  STEPFUSE_ASSIGN(const std::vector<ModelParameter> model, load_model(source));
  STEPFUSE_ASSIGN(const RoutedModel routed, routing.route(to_route(model)));
  STEPFUSE_ASSIGN(const auto parameters, plan_parameters(routed, model));
  STEPFUSE_ASSIGN(const compiler::StepPlan plan, compiler::make_plan(parameters, options));
  runtime::Store& store = context.kernels().store();
  const std::vector<ListedEntry> entries = list_entries(store, context.log());
  std::vector<ShapeAnswer> answers;
  STEPFUSE_ASSIGN(const std::vector<runtime::PlanShape> shapes, runtime::plan_shapes(plan, parameters, context));
  for (const runtime::PlanShape& shape : shapes) {
    ShapeAnswer answer{shape.parameter, shape.shape.members, shape.rule, runtime::shape_text(shape.shape.shape),
                       false,           std::nullopt,        {},         {}};
    STEPFUSE_TRY(answer_from(answer, shape.key.hash.hex(), shape.fields, entries, context));
    answers.push_back(std::move(answer));
  }
  return answers;
}

std::string misses_text(const std::vector<ShapeAnswer>& answers) {
  std::string text;
  for (const ShapeAnswer& answer : answers) {
    text += fmt::format("{} {} ({}{}): {}\n", answer.rule, answer.shape, answer.parameter,
                        answer.members > 1 ? fmt::format(" and {} more", answer.members - 1) : "",
                        answer.hit ? "hit" : "miss");
    for (const std::string& problem : answer.kernel_problems) text += fmt::format("  {}\n", problem);
    if (!answer.why.empty()) text += fmt::format("  {}\n", answer.why);
    if (answer.hit || !answer.why.empty() || !answer.kernel_problems.empty()) continue;
    if (!answer.nearest) {
      text += "  the cache holds no shape\n";
      continue;
    }
    text += fmt::format("  nearest is {}, which differs in\n", answer.nearest->entry.hash.substr(0, 12));
    for (const runtime::Difference& difference : answer.nearest->differences)
      text += fmt::format("    {}\n", difference.text());
  }
  return text;
}

Json misses_json(const std::vector<ShapeAnswer>& answers) {
  Json shapes = Json::array();
  for (const ShapeAnswer& answer : answers) {
    Json json = {{"rule", answer.rule},       {"shape", answer.shape}, {"parameter", answer.parameter},
                 {"members", answer.members}, {"hit", answer.hit},     {"kernel_problems", answer.kernel_problems}};
    if (answer.nearest) {
      json["nearest"] = answer.nearest->entry.hash;
      json["differences"] = Json::array();
      for (const runtime::Difference& d : answer.nearest->differences)
        json["differences"].push_back({{"field", d.name}, {"have", d.have}, {"want", d.want}});
    }
    shapes.push_back(std::move(json));
  }
  const auto hits = std::count_if(answers.begin(), answers.end(), [](const ShapeAnswer& a) { return a.hit; });
  return {{"hits", hits}, {"misses", static_cast<int64_t>(answers.size()) - hits}, {"shapes", shapes}};
}

}  // namespace stepfuse::tools
