// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Parameter names of released models, by family, and what they are for.
#include "runtime/config/default_rules.h"

#include <gtest/gtest.h>

namespace stepfuse::runtime {
namespace {

struct Named {
  const char* name;
  Role role;
};

void expect_roles(const std::vector<Named>& names) {
  for (const Named& named : names) EXPECT_EQ(role_name(role_of(named.name).role), role_name(named.role)) << named.name;
}

TEST(DefaultRules, Gpt2) {
  expect_roles({{"wte.weight", Role::Embedding},
                {"transformer.wpe.weight", Role::Embedding},
                {"transformer.h.0.ln_1.weight", Role::Norm},
                {"h.0.attn.c_attn.weight", Role::Hidden},
                {"h.0.attn.c_attn.bias", Role::Bias},
                {"h.0.mlp.c_fc.weight", Role::Hidden},
                {"h.0.mlp.c_proj.weight", Role::Hidden},
                {"ln_f.weight", Role::Norm},
                {"ln_f.bias", Role::Bias},
                {"lm_head.weight", Role::Head}});
}

TEST(DefaultRules, Llama) {
  expect_roles({{"model.embed_tokens.weight", Role::Embedding},
                {"model.layers.0.input_layernorm.weight", Role::Norm},
                {"model.layers.0.self_attn.q_proj.weight", Role::Hidden},
                {"model.layers.0.mlp.gate_proj.weight", Role::Hidden},
                {"model.layers.0.mlp.gate_up_proj.weight", Role::Hidden},
                {"model.norm.weight", Role::Norm},
                {"lm_head.weight", Role::Head},
                // As first released.
                {"tok_embeddings.weight", Role::Embedding},
                {"layers.0.attention.wq.weight", Role::Hidden},
                {"layers.0.feed_forward.w1.weight", Role::Hidden},
                {"layers.0.attention_norm.weight", Role::Norm},
                {"output.weight", Role::Head},
                {"module._orig_mod.output.weight", Role::Head},
                {"layers.0.attention.output.weight", Role::Hidden}});
}

TEST(DefaultRules, Qwen) {
  expect_roles({{"model.layers.0.self_attn.q_proj.bias", Role::Bias},
                {"model.layers.0.self_attn.q_norm.weight", Role::Norm},
                {"model.layers.0.mlp.gate.weight", Role::Router},
                {"model.layers.0.mlp.experts.3.gate_proj.weight", Role::Hidden},
                {"model.layers.0.mlp.shared_expert_gate.weight", Role::Router},
                {"model.layers.0.mlp.shared_expert.up_proj.weight", Role::Hidden}});
}

TEST(DefaultRules, DeepSeekV3) {
  expect_roles({{"model.layers.3.self_attn.kv_a_proj_with_mqa.weight", Role::Hidden},
                {"model.layers.3.self_attn.kv_a_layernorm.weight", Role::Norm},
                {"model.layers.3.self_attn.q_b_proj.weight", Role::Hidden},
                {"model.layers.3.mlp.gate.weight", Role::Router},
                {"model.layers.3.mlp.gate.e_score_correction_bias", Role::Bias},
                {"model.layers.3.mlp.shared_experts.down_proj.weight", Role::Hidden},
                {"model.layers.61.eh_proj.weight", Role::Hidden},
                {"model.layers.61.enorm.weight", Role::Norm},
                {"model.layers.61.shared_head.head.weight", Role::Head},
                {"model.layers.61.shared_head.norm.weight", Role::Norm},
                {"model.layers.61.embed_tokens.weight", Role::Embedding}});
}

TEST(DefaultRules, Mamba) {
  expect_roles({{"backbone.embeddings.weight", Role::Embedding},
                {"backbone.layers.0.mixer.A_log", Role::StateSpace},
                {"backbone.layers.0.mixer.D", Role::StateSpace},
                {"backbone.layers.0.mixer.dt_bias", Role::Bias},
                {"backbone.layers.0.mixer.conv1d.weight", Role::StateSpace},
                {"backbone.layers.0.mixer.conv1d.bias", Role::Bias},
                {"backbone.layers.0.mixer.in_proj.weight", Role::Hidden},
                {"backbone.layers.0.mixer.x_proj.weight", Role::Hidden},
                {"backbone.layers.0.mixer.dt_proj.weight", Role::Hidden},
                {"backbone.layers.0.norm.weight", Role::Norm},
                {"backbone.norm_f.weight", Role::Norm}});
}

TEST(DefaultRules, LoRA) {
  expect_roles({{"base_model.model.model.layers.0.self_attn.q_proj.lora_A.default.weight", Role::Adapter},
                {"base_model.model.model.layers.0.self_attn.q_proj.lora_B.default.weight", Role::Adapter},
                {"h.0.lora_A.weight", Role::Adapter},
                {"model.embed_tokens.lora_embedding_A", Role::Adapter},
                {"model.layers.0.self_attn.q_proj.base_layer.weight", Role::Hidden}});
}

TEST(DefaultRules, Megatron) {
  expect_roles({{"embedding.word_embeddings.weight", Role::Embedding},
                {"embedding.position_embeddings.weight", Role::Embedding},
                {"decoder.layers.0.self_attention.linear_qkv.weight", Role::Hidden},
                {"decoder.layers.0.self_attention.linear_qkv.layer_norm_weight", Role::Norm},
                {"decoder.layers.0.self_attention.linear_qkv.layer_norm_bias", Role::Bias},
                {"decoder.layers.0.mlp.linear_fc1.weight", Role::Hidden},
                {"decoder.layers.0.mlp.router.weight", Role::Router},
                {"decoder.layers.0.mlp.experts.local_experts.0.linear_fc2.weight", Role::Hidden},
                {"decoder.final_layernorm.weight", Role::Norm},
                {"output_layer.weight", Role::Head}});
}

TEST(DefaultRules, OthersAndFalseFriends) {
  expect_roles({{"gpt_neox.embed_in.weight", Role::Embedding},
                {"embed_out.weight", Role::Head},
                {"bert.embeddings.LayerNorm.weight", Role::Norm},
                {"bert.encoder.layer.0.attention.output.dense.weight", Role::Hidden},
                {"transformer.word_embeddings_layernorm.weight", Role::Norm},
                {"score.weight", Role::Head},
                {"classifier_HEAD", Role::Head},
                // Not heads, norms or embeddings.
                {"blocks.0.multi_head_attn.q_proj.weight", Role::Hidden},
                {"blocks.0.attn.headwise_proj.weight", Role::Hidden},
                {"blocks.0.norm1.linear.weight", Role::Hidden},
                {"frobnicator.weight", Role::Unknown},
                {"", Role::Unknown},
                {"...", Role::Unknown}});
}

TEST(DefaultRules, WrappersInTheMiddleOfAName) {
  expect_roles({{"base_model.model.score.modules_to_save.default.weight", Role::Head},
                {"model.layers.0.mlp.gate.modules_to_save.default.weight", Role::Router},
                {"model.layers.0.mlp.gate._orig_mod.weight", Role::Router},
                {"model.layers.0.self_attn.q_proj.base_layer.weight", Role::Hidden},
                {"_orig_mod.model.embed_tokens.weight", Role::Embedding},
                {"default", Role::Unknown}});
}

TEST(DefaultRules, HeadsRoutersAndEmbeddingsUnderOtherNames) {
  expect_roles({{"decoder.layers.0.mlp.shared_experts.gate_weight", Role::Router},
                {"decoder.layers.0.mlp.shared_experts.linear_fc1.weight", Role::Hidden},
                {"shared.weight", Role::Embedding},
                {"model.shared.weight", Role::Embedding},
                {"emb.weight", Role::Embedding},
                {"value_head.weight", Role::Head},
                {"reward_head.weight", Role::Head},
                {"binary_head.weight", Role::Head},
                {"vocab_projector.weight", Role::Head},
                {"decoder.layers.0.self_attention.linear_qkv.adapter.linear_in.weight", Role::Adapter},
                {"model.layers.0.self_attn.headwise_proj.weight", Role::Hidden}});
}

TEST(DefaultRules, SendsHiddenMatricesToMuon) {
  const auto choice = [](const char* name, const std::vector<int64_t>& shape, bool by_name = true) {
    return default_choice(role_of(name), shape, by_name);
  };
  EXPECT_TRUE(choice("h.0.attn.c_attn.weight", {768, 2304}).matrix);
  EXPECT_EQ(choice("h.0.attn.c_attn.weight", {768, 2304}).reason, "name rule: hidden (c_attn)");
  EXPECT_EQ(choice("Embedding.Word_Embeddings.weight", {8, 8}).reason, "name rule: embedding (Embedding)");
  EXPECT_EQ(choice("model.layers.0.mlp.gate.weight", {8, 8}).reason, "name rule: router (gate.weight)");
  EXPECT_EQ(choice("conv", {3, 3, 3}).reason, "ndim is 3");
  EXPECT_FALSE(choice("conv", {3, 3, 3}).matrix);
  EXPECT_EQ(choice("scale", {}).reason, "ndim is 0");
  EXPECT_TRUE(choice("frobnicator", {4, 4}).matrix);
  EXPECT_EQ(choice("frobnicator", {4, 4}).reason, "ndim is 2, no name rule");
  for (const char* name : {"wte.weight", "lm_head.weight", "mixer.A_log", "h.0.lora_A.weight", "mlp.gate.weight"})
    EXPECT_FALSE(choice(name, {8, 8}).matrix) << name;
  // Without names only the shape counts.
  EXPECT_TRUE(choice("wte.weight", {8, 8}, false).matrix);
  EXPECT_EQ(choice("wte.weight", {8, 8}, false).reason, "ndim is 2");
}

TEST(DefaultRules, EveryRuleHasAFamilyAndAWord) {
  for (const NameRule& rule : name_rules()) {
    EXPECT_FALSE(rule.models.empty()) << rule.pattern;
    EXPECT_EQ(parse_role(role_name(rule.role)), rule.role) << rule.pattern;
  }
  EXPECT_FALSE(parse_role("unknown").has_value());
  EXPECT_FALSE(parse_role("bais").has_value());
}

}  // namespace
}  // namespace stepfuse::runtime
