// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/support/nearest.h"
#include "runtime/aot.h"
#include "runtime/optimizer.h"
#include "tools/commands.h"
#include "tools/library.h"
#include "tools/model.h"
#include "tools/text_file.h"

#include <array>
#include <chrono>
#include <set>
#include <thread>

#include <nlohmann/json.hpp>

namespace stepfuse::tools {

namespace {

using Json = nlohmann::ordered_json;

/// All that aot and aot verify ask for before a file is opened.
struct AotRequest {
  std::string bundle;
  std::vector<std::string> targets;
  ModelSource source;
  bool json = false;
};

/// What the model needs on each target, and what keeps it alive.
struct AotModel {
  std::shared_ptr<const runtime::Context> context;
  std::vector<runtime::TargetNeeds> needs;

  int64_t kernels() const {
    return count([](const auto& n) { return n.kernels.size(); });
  }
  int64_t shapes() const {
    return count([](const auto& n) { return n.shapes.size(); });
  }

 private:
  template <class Size>
  int64_t count(Size size) const {
    int64_t sum = 0;
    for (const runtime::TargetNeeds& target : needs) sum += static_cast<int64_t>(size(target));
    return sum;
  }
};

std::string dump(const Json& body) {
  Json json = {{"schema", 1}};
  json.update(body);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Outcome check_bundle_name(const std::string& path) {
  if (runtime::is_bundle_path(path)) return {};
  return with_hint(
      fail(StatusCode::InvalidArgument, "'{}' is no name of a bundle", path),
      fmt::format("bundles end in {}: that is how a cache path tells them from folders", runtime::kBundleSuffix));
}

Result<AotRequest> read_request(const Arguments& arguments) {
  AotRequest request;
  STEPFUSE_TRY(require(arguments, {"target"}));
  STEPFUSE_ASSIGN(request.targets, read_targets(arguments));
  STEPFUSE_ASSIGN(const std::string format, read_choice(arguments, "format", {"text", "json"}, {"dot", "html"}));
  request.json = format == "json";
  STEPFUSE_ASSIGN(request.source, read_model_source(arguments));
  if (request.source.empty())
    return with_hint(fail(StatusCode::InvalidArgument, "aot needs --params or --shape"),
                     "give a safetensors file, a manifest (*.toml), or shapes such as --shape 48@768x3072");
  return request;
}

/// Settings that would make aot do something else than it says.
Outcome check_settings(const runtime::Settings& settings) {
  if (!settings.text("override_dir").empty())
    return with_hint(fail(StatusCode::InvalidArgument,
                          "override_dir has no effect on aot: a bundle holds generated "
                          "kernels only"),
                     "unset STEPFUSE_OVERRIDE_DIR");
  return {};
}

Result<AotModel> plan_model(const Arguments& arguments, const AotRequest& request, const Console& console) {
  STEPFUSE_ASSIGN(const Routing routing, Routing::create(arguments));
  // The context is for one target at most, and knows of none here.
  Arguments without_target = arguments;
  without_target.values.erase("target");
  AotModel out;
  STEPFUSE_ASSIGN(out.context, make_context(without_target, routing.settings()));
  STEPFUSE_TRY(check_settings(out.context->settings()));
  STEPFUSE_ASSIGN(const std::vector<ModelParameter> model, load_model(request.source));
  STEPFUSE_ASSIGN(const RoutedModel routed, routing.route(to_route(model)));
  for (const std::string& note : routed.notes) console.note(note);
  STEPFUSE_ASSIGN(const auto parameters, plan_parameters(routed, model));
  for (const std::string& target : request.targets) {
    STEPFUSE_ASSIGN(const compiler::PlanOptions options, plan_options(out.context->settings(), target));
    STEPFUSE_ASSIGN(const compiler::StepPlan plan, compiler::make_plan(parameters, options));
    STEPFUSE_ASSIGN(runtime::TargetNeeds needs, runtime::needs_of(plan, parameters, *out.context));
    out.needs.push_back(std::move(needs));
  }
  return out;
}

std::string hash_of(const runtime::KernelMaker& kernel) {
  return runtime::Key::of(runtime::EntryKind::Kernel, kernel.key_fields()).hash.hex();
}

Json needs_json(const AotModel& model) {
  Json targets = Json::array();
  for (const runtime::TargetNeeds& needs : model.needs) {
    Json json = {{"target", needs.target}, {"shapes", Json::array()}, {"kernels", Json::array()}};
    for (const runtime::PlanShape& shape : needs.shapes)
      json["shapes"].push_back({{"rule", shape.rule},
                                {"shape", runtime::shape_text(shape.shape.shape)},
                                {"parameter", shape.parameter},
                                {"members", shape.shape.members},
                                {"hash", shape.key.hash.hex()}});
    for (const auto& kernel : needs.kernels)
      json["kernels"].push_back({{"name", kernel_label(*kernel)}, {"hash", hash_of(*kernel)}});
    targets.push_back(std::move(json));
  }
  return {{"kernels", model.kernels()}, {"shapes", model.shapes()}, {"targets", targets}};
}

std::string needs_text(const AotModel& model) {
  std::string text;
  for (const runtime::TargetNeeds& needs : model.needs) {
    text += fmt::format("{}: {} kernels, {} shapes\n", needs.target, needs.kernels.size(), needs.shapes.size());
    for (const runtime::PlanShape& shape : needs.shapes)
      text += fmt::format("  shape  {} {} {} ({}{})\n", shape.key.hash.hex().substr(0, 12), shape.rule,
                          runtime::shape_text(shape.shape.shape), shape.parameter,
                          shape.shape.members > 1 ? fmt::format(" and {} more", shape.shape.members - 1) : "");
    for (const auto& kernel : needs.kernels)
      text += fmt::format("  kernel {} {}\n", hash_of(*kernel).substr(0, 12), kernel_label(*kernel));
  }
  return text;
}

int64_t job_limit(const runtime::Settings& settings) {
  if (const int64_t jobs = settings.number("jobs"); jobs > 0) return jobs;
  if (const int64_t threads = settings.number("threads"); threads > 0) return threads;
  return std::max(std::thread::hardware_concurrency(), 1u);
}

Result<std::string> compile(const AotRequest& request, const AotModel& model, const Console& console) {
  if (model.context->settings().is("jit", "off"))
    return with_hint(fail(StatusCode::InvalidArgument, "aot compiles, and jit=off forbids it"),
                     "unset STEPFUSE_JIT, or see with --dry-run what would be compiled");
  const int64_t jobs = job_limit(model.context->settings());
  const auto start = std::chrono::steady_clock::now();
  const auto entries =
      runtime::compile_needs(model.needs, jobs, [&](int64_t done, int64_t of, std::string_view kernel) {
        console.progress(fmt::format("compiled {} of {}: {}", done, of, kernel));
      });
  console.end_progress();
  if (!entries) return fail(entries.error());
  if (Outcome written = runtime::write_bundle(request.bundle, *entries); !written) {
    written.error().message += fmt::format("; none of the {} entries is kept", entries->size());
    return fail(std::move(written.error()));
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const auto is_kernel = [](const runtime::Entry& e) { return e.kind == runtime::EntryKind::Kernel; };
  const auto kernels = std::count_if(entries->begin(), entries->end(), is_kernel);
  const auto shapes = static_cast<int64_t>(entries->size()) - kernels;
  console.note(fmt::format("compiled {} kernels in {:.2f} s, {} at a time", kernels, took.count(), jobs));
  if (request.json)
    return dump({{"bundle", request.bundle}, {"kernels", kernels}, {"shapes", shapes}, {"targets", request.targets}});
  return fmt::format("{}: {} kernels and {} shapes for {}\n", request.bundle, kernels, shapes,
                     fmt::join(request.targets, ", "));
}

Json missing_json(const std::vector<runtime::MissingEntry>& missing) {
  Json array = Json::array();
  for (const runtime::MissingEntry& entry : missing)
    array.push_back({{"target", entry.target},
                     {"kind", runtime::entry_kind_name(entry.kind)},
                     {"name", entry.name},
                     {"hash", entry.hash},
                     {"why", entry.why}});
  return array;
}

Result<std::string> verify(const AotRequest& request, const AotModel& model) {
  STEPFUSE_ASSIGN(const auto bundle,
                  runtime::Bundle::open(request.bundle, runtime::CacheEnvironment::of_process().uid));
  const auto missing = missing_from(*bundle, model.needs);
  const int64_t needed = model.kernels() + model.shapes();
  std::string text;
  if (request.json) {
    text = dump({{"bundle", request.bundle}, {"needed", needed}, {"missing", missing_json(missing)}});
  } else if (missing.empty()) {
    text = fmt::format("{}: holds all {} kernels and {} shapes for {}\n", request.bundle, model.kernels(),
                       model.shapes(), fmt::join(request.targets, ", "));
  }
  if (missing.empty()) return text;
  for (const runtime::MissingEntry& entry : missing)
    if (!request.json)
      text += fmt::format("{} {} {} ({}): {}\n", entry.target, runtime::entry_kind_name(entry.kind), entry.name,
                          entry.hash.substr(0, 12), entry.why);
  // The list is the result, although it is not what was hoped for.
  STEPFUSE_TRY(write_result({}, text));
  return with_hint(
      fail(StatusCode::Failed, "{} of {} entries are missing from {}", missing.size(), needed, request.bundle),
      "make the bundle anew with `stepfuse aot`, the same config, parameters, mode and targets");
}

Outcome refuse(const Arguments& arguments, std::initializer_list<std::string_view> options, std::string_view command) {
  for (const std::string_view option : options)
    if (arguments.has(option)) return fail(StatusCode::InvalidArgument, "--{} has no effect on {}", option, command);
  return {};
}

Result<std::string> run_verify(const Arguments& arguments, const Console& console) {
  if (arguments.positionals.size() != 2)
    return with_hint(fail(StatusCode::InvalidArgument, "aot verify needs a BUNDLE"),
                     "for example: stepfuse aot verify kernels.sfb --params model.toml --target sm_90");
  STEPFUSE_TRY(refuse(arguments, {"output", "dry-run", "jobs"}, "aot verify"));
  STEPFUSE_ASSIGN(AotRequest request, read_request(arguments));
  request.bundle = arguments.positionals[1];
  STEPFUSE_TRY(check_bundle_name(request.bundle));
  STEPFUSE_ASSIGN(const AotModel model, plan_model(arguments, request, console));
  return verify(request, model);
}

/// States belong to nobody here: no step is taken, and a model may fill a device.
Outcome add_parameters(runtime::Optimizer& optimizer, const RoutedModel& routed,
                       const std::vector<ModelParameter>& model) {
  std::vector<uint32_t> groups;
  for (const RoutedRule& rule : routed.rules) {
    STEPFUSE_ASSIGN(const uint32_t group, optimizer.add_group(rule.recipe, rule.options));
    groups.push_back(group);
  }
  for (size_t i = 0; i < model.size(); ++i) {
    runtime::NewParameter added{model[i].name, model[i].spec, {}, {}, true, {}};
    STEPFUSE_TRY(optimizer.add_parameter(groups[routed.rule_of[i]], added).map([](uint32_t) {}));
  }
  return {};
}

/// The model's optimizer on the present device, prepared; its kernels come from the bundle.
Result<runtime::Optimizer> prepare_on_device(const Arguments& arguments, const AotRequest& request,
                                             const Console& console) {
  STEPFUSE_ASSIGN(const Routing routing, Routing::create(arguments));
  Arguments with_bundle = arguments;
  with_bundle.values["target"] = {"cuda"};
  STEPFUSE_ASSIGN(const auto context,
                  make_context(with_bundle, routing.settings(), {{"cache_path", request.bundle, "the bundle"}}));
  STEPFUSE_TRY(check_settings(context->settings()));
  runtime::OptimizerSettings settings;
  settings.context = context;
  settings.target = "cuda";
  settings.mode = mode_of(context->settings());
  settings.device = static_cast<int>(context->settings().number("device"));
  settings.runner.disabled = context->settings().list("disable");
  STEPFUSE_ASSIGN(const std::vector<ModelParameter> model, load_model(request.source));
  STEPFUSE_ASSIGN(const RoutedModel routed, routing.route(to_route(model)));
  for (const std::string& note : routed.notes) console.note(note);
  STEPFUSE_ASSIGN(runtime::Optimizer optimizer, runtime::Optimizer::create(settings));
  STEPFUSE_TRY(add_parameters(optimizer, routed, model));
  STEPFUSE_TRY(optimizer.prepare());
  return optimizer;
}

/// Entries of a bundle, with `added` in place of those of the same key.
Result<std::vector<runtime::Entry>> with_entries(const runtime::Bundle& bundle, std::vector<runtime::Entry> added) {
  std::set<std::string> replaced;
  for (runtime::Entry& entry : added) {
    replaced.insert(entry.preimage);
    entry = without_provenance(std::move(entry));
  }
  for (const runtime::BundleItem& item : bundle.items()) {
    runtime::EntryRead read = bundle.read(item);
    if (!read.entry) return fail(StatusCode::InvalidData, "{}: {}", bundle.path(), read.why);
    if (!replaced.contains(read.entry->preimage)) added.push_back(std::move(*read.entry));
  }
  return added;
}

Result<std::string> run_finish(const Arguments& arguments, const Console& console) {
  if (arguments.positionals.size() != 2)
    return with_hint(fail(StatusCode::InvalidArgument, "aot finish needs a BUNDLE"),
                     "for example: stepfuse aot finish kernels.sfb --params model.toml -o finished.sfb");
  STEPFUSE_TRY(refuse(arguments, {"target", "dry-run", "format"}, "aot finish, which serves the present device"));
  STEPFUSE_TRY(require(arguments, {"output"}));
  AotRequest request;
  request.bundle = arguments.positionals[1];
  const std::string output = arguments.get("output");
  STEPFUSE_TRY(check_bundle_name(request.bundle));
  STEPFUSE_TRY(check_bundle_name(output));
  STEPFUSE_TRY(check_writable(output));
  STEPFUSE_ASSIGN(request.source, read_model_source(arguments));
  if (request.source.empty())
    return with_hint(fail(StatusCode::InvalidArgument, "aot finish needs --params or --shape"),
                     "give the model that the bundle was made for");
  STEPFUSE_ASSIGN(const auto bundle,
                  runtime::Bundle::open(request.bundle, runtime::CacheEnvironment::of_process().uid));
  STEPFUSE_ASSIGN(const runtime::Optimizer optimizer, prepare_on_device(arguments, request, console));
  const std::vector<runtime::Entry> products = optimizer.product_entries();
  STEPFUSE_ASSIGN(const std::vector<runtime::Entry> all, with_entries(*bundle, products));
  STEPFUSE_TRY(runtime::write_bundle(output, all));
  return fmt::format("{}: {} entries, of them {} products of this device\n", output, all.size(), products.size());
}

}  // namespace

Result<std::string> command_aot(const Arguments& arguments, const Console& console) {
  if (!arguments.positionals.empty()) {
    const std::string& action = arguments.positionals.front();
    if (action == "verify") return run_verify(arguments, console);
    if (action == "finish") return run_finish(arguments, console);
    constexpr std::array<std::string_view, 2> kActions{"verify", "finish"};
    return with_hint(fail(StatusCode::InvalidArgument, "aot has no action '{}'", action),
                     suggestion(action, kActions, "its actions are verify and finish; without one it compiles"));
  }
  STEPFUSE_ASSIGN(AotRequest request, read_request(arguments));
  const bool dry_run = arguments.has("dry-run");
  if (dry_run) STEPFUSE_TRY(refuse(arguments, {"output", "jobs"}, "a --dry-run"));
  if (!dry_run) {
    STEPFUSE_TRY(require(arguments, {"output"}));
    request.bundle = arguments.get("output");
    STEPFUSE_TRY(check_bundle_name(request.bundle));
    STEPFUSE_TRY(check_writable(request.bundle));
  }
  STEPFUSE_ASSIGN(const AotModel model, plan_model(arguments, request, console));
  if (dry_run) return request.json ? dump(needs_json(model)) : needs_text(model);
  return compile(request, model, console);
}

}  // namespace stepfuse::tools
