// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/explain.h"

#include "tests/unit/plan_fixture.h"

#include <nlohmann/json.hpp>

namespace stepfuse::compiler {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

std::vector<PlannedParameter> model() {
  return {planned_recipe("a.weight", {16, 24}, "muon"), planned_recipe("b.weight", {16, 24}, "muon"),
          planned_recipe("bias", {24}, "adamw")};
}

ordered_json explained(ir::Mode mode, std::vector<std::string> disabled = {}, const BackendNotes& notes = {}) {
  const auto parameters = model();
  return explain_json(plan_of(parameters, plan_options(mode, std::move(disabled))), parameters, notes);
}

std::vector<std::string> keys(const ordered_json& object) {
  std::vector<std::string> names;
  for (const auto& [key, value] : object.items()) names.push_back(key);
  return names;
}

TEST(Explain, HasTheFieldsOfItsSchema) {
  using testing::ElementsAre;
  const ordered_json json = explained(ir::Mode::Default);
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["mode"], "default");
  EXPECT_EQ(json["target"], "cpu");
  EXPECT_THAT(keys(json), ElementsAre("schema", "target", "mode", "summary", "groups", "decisions"));
  EXPECT_THAT(keys(json["summary"]), ElementsAre("parameters", "naive", "peer_eager", "fused"));
  EXPECT_THAT(keys(json["summary"]["naive"]), ElementsAre("launches", "elementwise_launches", "gemms", "aux_launches"));
  EXPECT_THAT(keys(json["summary"]["peer_eager"]),
              ElementsAre("launches", "elementwise_launches", "gemms", "aux_launches"));
  EXPECT_THAT(keys(json["summary"]["fused"]),
              ElementsAre("launches", "elementwise_launches", "gemms", "aux_launches", "gemm_flops", "bytes_per_param",
                          "workspace_bytes", "host_syncs", "graph_launches"));
  for (const auto& group : json["groups"])
    EXPECT_THAT(keys(group), ElementsAre("rule", "peer", "parameters", "batches", "per_batch", "steps"));
  for (const auto& decision : json["decisions"])
    EXPECT_THAT(keys(decision), ElementsAre("pass", "subject", "taken", "why", "saves", "alternatives"));
}

TEST(Explain, CountsComeFromThePlan) {
  const auto parameters = model();
  const StepPlan plan = plan_of(parameters);
  const PlanCounts counts = count_plan(plan, parameters);
  const ordered_json json = explain_json(plan, parameters, {});
  const ordered_json& fused = json["summary"]["fused"];
  EXPECT_EQ(json["summary"]["parameters"], 2 * 16 * 24 + 24);
  EXPECT_EQ(fused["launches"], plan.launches.size());
  EXPECT_EQ(fused["gemms"], counts.fused.gemms);
  EXPECT_EQ(fused["elementwise_launches"], counts.fused.elementwise);
  EXPECT_EQ(fused["aux_launches"], counts.fused.aux);
  EXPECT_EQ(fused["workspace_bytes"], plan.workspace_bytes);
  EXPECT_EQ(fused["host_syncs"], 0);
  EXPECT_EQ(json["summary"]["peer_eager"]["launches"], 2 * 23 + 9);
  ASSERT_EQ(json["groups"].size(), 2U);
  EXPECT_EQ(json["groups"][0]["parameters"], (ordered_json{"a.weight", "b.weight"}));
  EXPECT_EQ(json["groups"][0]["peer"], "torch.optim.Muon");
  EXPECT_EQ(json["groups"][0]["steps"].size(), plan.groups[0].steps.size());
  EXPECT_EQ(json["groups"][1]["steps"][0]["role"], "update");
}

TEST(Explain, EveryDecisionHasAReason) {
  for (const ir::Mode mode : {ir::Mode::Default, ir::Mode::Strict}) {
    for (const auto& disabled : std::vector<std::vector<std::string>>{{}, {"fuse", "batch"}, {"absorb_update"}}) {
      const ordered_json json = explained(mode, disabled);
      ASSERT_FALSE(json["decisions"].empty());
      for (const auto& decision : json["decisions"]) {
        EXPECT_FALSE(decision["pass"].get<std::string>().empty()) << decision;
        EXPECT_FALSE(decision["subject"].get<std::string>().empty()) << decision;
        EXPECT_FALSE(decision["why"].get<std::string>().empty()) << decision;
        EXPECT_TRUE(find_pass(decision["pass"].get<std::string>()).has_value()) << decision;
        if (!decision["taken"].get<bool>()) {
          EXPECT_EQ(decision["saves"], "") << decision;
        }
      }
    }
  }
}

TEST(Explain, StrictSaysWhyItSkips) {
  const ordered_json json = explained(ir::Mode::Strict);
  EXPECT_EQ(json["mode"], "strict");
  for (const PassInfo& pass : all_passes()) {
    if (!pass.default_mode_only) continue;
    int found = 0;
    for (const auto& decision : json["decisions"]) {
      if (decision["pass"] != pass.name) continue;
      ++found;
      EXPECT_FALSE(decision["taken"].get<bool>());
      EXPECT_THAT(decision["why"].get<std::string>(), HasSubstr("strict rounds once per op"));
    }
    EXPECT_EQ(found, 2) << pass.name << ": one for each group";
  }
}

TEST(Explain, BackendNotesComeLast) {
  const ordered_json json =
      explained(ir::Mode::Default, {}, {{"gemm", "f32", true, "openblas passed its test", {}, {}}});
  EXPECT_EQ(json["decisions"].back()["pass"], "gemm");
  EXPECT_EQ(json["decisions"].back()["why"], "openblas passed its test");
}

TEST(Explain, TextSaysTheSame) {
  const auto parameters = model();
  const StepPlan plan = plan_of(parameters, plan_options(ir::Mode::Default, {"absorb_update"}));
  const std::string text = explain_text(plan, parameters, {{"gemm", "f32", true, "openblas passed its test", {}, {}}});
  for (const char* part :
       {"792 parameters in 2 groups, target cpu, default numerics", "55 launches: 25 elementwise, 30",
        "group muon (peer: torch.optim.Muon): 2 parameters, 1 batches", "0 host syncs", "- absorb_update",
        "switched off by name", "+ fuse", "+ gemm", "instead of: "})
    EXPECT_THAT(text, HasSubstr(part));
}

}  // namespace
}  // namespace stepfuse::compiler
