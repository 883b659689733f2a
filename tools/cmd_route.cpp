// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan.h"
#include "tools/commands.h"
#include "tools/model.h"
#include "tools/option_values.h"
#include "tools/routing.h"

#include <algorithm>
#include <array>
#include <cctype>

#include <nlohmann/json.hpp>

namespace stepfuse::tools {

namespace {

using nlohmann::ordered_json;

using Row = std::array<std::string, 9>;
constexpr std::array<std::string_view, 9> kColumns{"parameter", "shape", "group", "optimizer", "decay",
                                                   "lr factor", "lr",    "scale", "rule"};

std::string number(std::optional<double> value) { return value ? fmt::format("{:.6g}", *value) : "-"; }

std::string factor_text(const runtime::GroupPolicy& policy) {
  return number(policy.lr_mult) + (policy.lr_max ? fmt::format(" <= {:.6g}", *policy.lr_max) : "");
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, "x"));
}

Row row_of(const ModelParameter& parameter, const runtime::Route& route, const runtime::RouteGroup& group) {
  std::string decay = number(group.weight_decay);
  if (!route.decay_reason.empty()) decay += fmt::format(" ({})", route.decay_reason);
  return {parameter.name, shape_text(parameter.spec.shape), group.name,       group.optimizer,
          decay,          factor_text(group.policy),        number(group.lr), number(route.scale),
          route.reason};
}

/// "h.11.attn.weight" is "h.*.attn.weight": layers differ in nothing else.
std::string without_numbers(const std::string& name) {
  std::string out;
  size_t begin = 0;
  while (true) {
    const size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view segment = std::string_view(name).substr(begin, end - begin);
    const bool digits = !segment.empty() && std::all_of(segment.begin(), segment.end(),
                                                        [](unsigned char c) { return std::isdigit(c) != 0; });
    out.append(digits ? "*" : segment);
    if (end == name.size()) return out;
    out += '.';
    begin = end + 1;
  }
}

/// Rows that differ only in the numbers of their names become one; one that stands alone keeps its name.
std::vector<Row> fold_layers(const std::vector<Row>& rows) {
  struct Folded {
    Row row;
    std::string name;
    size_t count = 0;
  };
  std::vector<Folded> folded;
  std::map<Row, size_t> index;
  for (const Row& row : rows) {
    Row key = row;
    key[0] = without_numbers(row[0]);
    const auto [it, made] = index.try_emplace(key, folded.size());
    if (made) folded.push_back({key, row[0], 0});
    ++folded[it->second].count;
  }
  std::vector<Row> out;
  for (Folded& entry : folded) {
    entry.row[0] = entry.count == 1 ? entry.name : fmt::format("{} ({})", entry.row[0], entry.count);
    out.push_back(std::move(entry.row));
  }
  return out;
}

std::string table_text(const std::vector<Row>& rows) {
  std::array<size_t, kColumns.size()> width{};
  for (size_t c = 0; c < width.size(); ++c) {
    width[c] = kColumns[c].size();
    for (const Row& row : rows) width[c] = std::max(width[c], row[c].size());
  }
  std::string text;
  const auto line = [&](const auto& cells) {
    for (size_t c = 0; c + 1 < cells.size(); ++c) text += fmt::format("{:<{}}  ", cells[c], width[c]);
    text += fmt::format("{}\n", cells.back());
  };
  line(kColumns);
  for (const Row& row : rows) line(row);
  return text;
}

struct Totals {
  size_t parameters = 0;
  int64_t elements = 0;
};

std::vector<Totals> totals_of(const runtime::Routes& routes, const std::vector<ModelParameter>& model) {
  std::vector<Totals> totals(routes.groups.size());
  for (size_t i = 0; i < model.size(); ++i) {
    Totals& total = totals[routes.parameters[i].group];
    ++total.parameters;
    total.elements += compiler::element_count(model[i].spec.shape);
  }
  return totals;
}

std::string route_text(const runtime::Routes& routes, const std::vector<ModelParameter>& model, bool each) {
  std::vector<Row> rows;
  for (size_t i = 0; i < model.size(); ++i)
    rows.push_back(row_of(model[i], routes.parameters[i], routes.groups[routes.parameters[i].group]));
  std::string text = table_text(each ? rows : fold_layers(rows)) + "\n";
  const std::vector<Totals> totals = totals_of(routes, model);
  for (size_t g = 0; g < routes.groups.size(); ++g) {
    text +=
        fmt::format("{}: {} parameters, {} elements", routes.groups[g].name, totals[g].parameters, totals[g].elements);
    for (const auto& [name, value] : routes.groups[g].options) text += fmt::format(", {}={}", name, value);
    text += '\n';
  }
  return text;
}

/// JSON has no word for "no such thing" but null.
ordered_json json_number(std::optional<double> value) { return value ? ordered_json(*value) : ordered_json(nullptr); }

ordered_json group_json(const runtime::RouteGroup& group, const Totals& totals) {
  ordered_json options = ordered_json::object();
  for (const auto& [name, value] : group.options) options[name] = value;
  return {{"name", group.name},
          {"optimizer", group.optimizer},
          {"options", options},
          {"lr", json_number(group.lr)},
          {"lr_mult", group.policy.lr_mult},
          {"lr_max", json_number(group.policy.lr_max)},
          {"weight_decay", json_number(group.weight_decay)},
          {"parameters", totals.parameters},
          {"elements", totals.elements}};
}

std::string route_json(const runtime::Routes& routes, const std::vector<ModelParameter>& model) {
  const std::vector<Totals> totals = totals_of(routes, model);
  ordered_json groups = ordered_json::array(), parameters = ordered_json::array();
  for (size_t g = 0; g < routes.groups.size(); ++g) groups.push_back(group_json(routes.groups[g], totals[g]));
  for (size_t i = 0; i < model.size(); ++i) {
    const runtime::Route& route = routes.parameters[i];
    const runtime::RouteGroup& group = routes.groups[route.group];
    parameters.push_back({{"name", model[i].name},
                          {"shape", model[i].spec.shape},
                          {"dtype", ir::dtype_name(model[i].spec.param)},
                          {"group", group.name},
                          {"rule", route.reason},
                          {"optimizer", group.optimizer},
                          {"weight_decay", json_number(group.weight_decay)},
                          {"decay_rule", route.decay_reason},
                          {"lr", json_number(group.lr)},
                          {"scale", route.scale}});
  }
  const ordered_json result{{"schema", 1}, {"groups", groups}, {"parameters", parameters}, {"notes", routes.notes}};
  return result.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

Result<std::string> command_route(const Arguments& arguments, const Console& console) {
  STEPFUSE_ASSIGN(const std::string format, read_choice(arguments, "format", {"text", "json"}, {"dot", "html"}));
  STEPFUSE_ASSIGN(const ModelSource source, read_model_source(arguments));
  if (source.empty())
    return with_hint(fail(StatusCode::InvalidArgument, "route needs --params or --shape"),
                     "give a safetensors file, a manifest (*.toml) or a shape, such as --shape 768x3072");
  STEPFUSE_ASSIGN(runtime::Config config, read_config(arguments));
  STEPFUSE_ASSIGN(const runtime::Router router, runtime::Router::create(std::move(config)));
  STEPFUSE_ASSIGN(const std::vector<ModelParameter> model, load_model(source));
  STEPFUSE_ASSIGN(const runtime::Routes routes, router.route(to_route(model)));
  for (const std::string& note : routes.notes) console.note(note);
  const bool each = arguments.has("explain") || arguments.has("verbose");
  return format == "json" ? route_json(routes, model) : route_text(routes, model, each);
}

}  // namespace stepfuse::tools
