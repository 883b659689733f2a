// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// A config of four groups read and 10,000 parameters routed by it, as a trainer does once per start. Target: 50 ms.
#include "bench/report.h"
#include "runtime/config/route.h"

#include <cstdio>
#include <stdexcept>

using namespace stepfuse;

namespace {

constexpr double kTargetMilliseconds = 50;
constexpr size_t kParameters = 10'000;

constexpr std::string_view kConfig = R"(
[defaults]
no_decay = ["bias", "norm", "embedding"]
[[group]]
name = "attention"
match = ["*.self_attn.*_proj.weight", "model.layers.0.self_attn.*.weight"]
where = "ndim == 2 and rows < 100000"
except = ["*.lora_*", "*_norm.weight"]
optimizer = "muon"
[[group]]
name = "mlp"
match = ["*.mlp.*.weight"]
where = "ndim == 2"
except = "*.mlp.gate.weight"
optimizer = "muon"
lr_mult = 0.5
[[group]]
name = "embeddings"
match = ["*embed_tokens*", "lm_head.*"]
optimizer = "adamw"
[[group]]
name = "norms"
match = "*layernorm*"
optimizer = "adamw"
lr_max = 1e-3
)";

std::vector<runtime::RoutedParameter> make_model() {
  std::vector<runtime::RoutedParameter> model{{"model.embed_tokens.weight", {50000, 512}},
                                              {"lm_head.weight", {50000, 512}}};
  for (int layer = 0; model.size() < kParameters; ++layer) {
    const auto add = [&](const char* name, std::vector<int64_t> shape) {
      if (model.size() < kParameters)
        model.push_back({fmt::format("model.layers.{}.{}", layer, name), std::move(shape)});
    };
    add("input_layernorm.weight", {512});
    for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"})
      add(fmt::format("self_attn.{}.weight", name).c_str(), {512, 512});
    add("mlp.gate.weight", {8, 512});
    for (const char* name : {"gate_proj", "up_proj", "down_proj"})
      add(fmt::format("mlp.{}.weight", name).c_str(), {2048, 512});
    add("self_attn.q_proj.bias", {512});
  }
  return model;
}

template <class Function>
double milliseconds(Function function) {
  const double start = bench::now();
  function();
  return (bench::now() - start) * 1e3;
}

template <class T>
T checked(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

int run(const bench::Options& options) {
  bench::Report report("route_config", options);
  const std::vector<runtime::RoutedParameter> model = make_model();
  std::vector<double> read, routed, both;
  for (int round = -2; round < options.rounds; ++round) {  // the first two are warm-up
    std::optional<runtime::Router> router;
    const double a = milliseconds(
        [&] { router = checked(runtime::Router::create(checked(runtime::parse_config(kConfig, "bench.toml")))); });
    const double b = milliseconds([&] { checked(router->route(model)); });
    if (round < 0) continue;
    read.push_back(a);
    routed.push_back(b);
    both.push_back(a + b);
  }
  report.add("read", bench::spread_of(read), "ms");
  report.add("route", bench::spread_of(routed), "ms");
  const bench::Spread total = bench::spread_of(both);
  report.add("read and route 10,000 parameters", total, "ms");
  report.require_at_most("read and route 10,000 parameters", total.median, kTargetMilliseconds);
  return report.finish();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(bench::parse_options(argc, argv, 21));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
