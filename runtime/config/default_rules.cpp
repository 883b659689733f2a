// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/default_rules.h"

#include "ir/support/status.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace stepfuse::runtime {

namespace {

constexpr std::array<std::pair<Role, std::string_view>, 9> kRoles{{{Role::Adapter, "adapter"},
                                                                   {Role::Bias, "bias"},
                                                                   {Role::Norm, "norm"},
                                                                   {Role::Router, "router"},
                                                                   {Role::Head, "head"},
                                                                   {Role::StateSpace, "state_space"},
                                                                   {Role::Embedding, "embedding"},
                                                                   {Role::Hidden, "hidden"},
                                                                   {Role::Unknown, "unknown"}}};

// An adapter lies inside a module of another role, and a norm or bias inside an embedding: the narrower role is first.
// Hidden comes last, for it is the widest.
constexpr std::array kRules{
    NameRule{Role::Adapter, "lora_*", "PEFT: lora_A, lora_B, lora_embedding_A, lora_magnitude_vector"},
    NameRule{Role::Adapter, "adapter", "Megatron-Bridge, NeMo linear_qkv.adapter.linear_in"},
    NameRule{Role::Bias, "bias$", "all"},
    NameRule{Role::Bias, "*_bias$", "Mamba dt_bias; DeepSeek-V3 e_score_correction_bias; Megatron layer_norm_bias"},
    NameRule{Role::Bias, "bias_*$", "torch.nn.LSTM bias_ih_l0"},
    NameRule{Role::Norm, "*norm*$", "Megatron linear_qkv.layer_norm_weight"},
    NameRule{Role::Norm, "*norm*.*$",
             "Llama input_layernorm, norm; Qwen3 q_norm; DeepSeek kv_a_layernorm, enorm, hnorm"},
    NameRule{Role::Norm, "ln_*.*$", "GPT-2 ln_1, ln_f"},
    NameRule{Role::Norm, "ln?.*$", "OLMo, ViT ln1"},
    NameRule{Role::Norm, "ln.*$", "RWKV, nanoGPT's relatives"},
    NameRule{Role::Router, "*router*", "Megatron mlp.router; GPT-OSS; Jamba"},
    NameRule{Role::Router, "gate.weight$", "Qwen-MoE, Mixtral, DeepSeek mlp.gate"},
    NameRule{Role::Router, "gate.wg.weight$", "DeepSpeed-MoE"},
    NameRule{Role::Router, "gate_weight$", "Megatron shared_experts"},
    NameRule{Role::Router, "shared_expert_gate.weight$", "Qwen2-MoE"},
    NameRule{Role::Head, "lm_head", "GPT-2, Llama, Qwen, Mamba in transformers"},
    NameRule{Role::Head, "embed_out", "GPT-NeoX, Pythia"},
    NameRule{Role::Head, "unembed*", "GPT-J's relatives, TransformerLens"},
    NameRule{Role::Head, "output_layer", "Megatron, ChatGLM"},
    NameRule{Role::Head, "^output.weight$", "Llama as first released"},
    NameRule{Role::Head, "head.weight$", "DeepSeek-V3 shared_head.head, head; ViT"},
    NameRule{Role::Head, "*_head.weight$", "value, reward, binary and classification heads"},
    NameRule{Role::Head, "vocab_projector", "DistilBERT"},
    NameRule{Role::Head, "score.weight$", "transformers, sequence classification"},
    NameRule{Role::Head, "classifier*", "transformers, token classification"},
    NameRule{Role::Head, "qa_outputs", "transformers, question answering"},
    NameRule{Role::Head, "cls.predictions", "BERT"},
    NameRule{Role::Head, "v_head", "TRL value head"},
    NameRule{Role::Head, "*medusa_head*", "Medusa"},
    NameRule{Role::Head, "mtp_head*", "multi-token prediction"},
    NameRule{Role::StateSpace, "a_log$", "Mamba (a matrix), Mamba-2 (a vector)"},
    NameRule{Role::StateSpace, "d$", "Mamba mixer.D"},
    NameRule{Role::StateSpace, "conv1d", "Mamba"},
    NameRule{Role::Embedding, "wte", "GPT-2"},
    NameRule{Role::Embedding, "wpe", "GPT-2"},
    NameRule{Role::Embedding, "*embed*",
             "embed_tokens, tok_embeddings, word_embeddings, position_embeddings, embed_in"},
    NameRule{Role::Embedding, "*_emb", "nanoGPT's relatives tok_emb, pos_emb"},
    NameRule{Role::Embedding, "emb.weight$", "RWKV"},
    NameRule{Role::Embedding, "^shared.weight$", "T5, BART"},
    NameRule{Role::Embedding, "relative_attention_bias", "T5"},
    NameRule{Role::Hidden, "*_proj*", "Llama, Qwen q_proj, gate_proj; DeepSeek kv_a_proj_with_mqa; Mamba in_proj"},
    NameRule{Role::Hidden, "c_attn", "GPT-2"},
    NameRule{Role::Hidden, "c_fc", "GPT-2"},
    NameRule{Role::Hidden, "*attn*", "h.0.attn.weight"},
    NameRule{Role::Hidden, "*attention*", "BERT, GPT-NeoX, Megatron"},
    NameRule{Role::Hidden, "*mlp*", "GPT-NeoX dense_h_to_4h"},
    NameRule{Role::Hidden, "*expert*", "mixtures of experts w1, w2, w3"},
    NameRule{Role::Hidden, "feed_forward", "Llama as first released w1, w2, w3"},
    NameRule{Role::Hidden, "ffn*", "DeepSeek-V3 as released"},
    NameRule{Role::Hidden, "linear*", "Megatron linear_qkv, linear_fc1"},
    NameRule{Role::Hidden, "fc?", "OPT fc1, fc2"},
    NameRule{Role::Hidden, "proj", "ViT"},
    NameRule{Role::Hidden, "dense*", "BERT, Phi"},
    NameRule{Role::Hidden, "intermediate", "BERT"},
    NameRule{Role::Hidden, "mixer", "Mamba"},
};

/// What training frameworks put before a model's own names.
constexpr std::array<std::string_view, 6> kWrappers{"module",     "model",       "_forward_module",
                                                    "base_model", "transformer", "language_model"};

/// What adapters and wrappers put into the middle of a name: PEFT's score.modules_to_save.default.weight, say.
constexpr std::array<std::string_view, 7> kInserted{
    "modules_to_save",      "original_module",           "base_layer", "default", "_orig_mod",
    "_fsdp_wrapped_module", "_checkpoint_wrapped_module"};

std::vector<std::string_view> segments_of(std::string_view name) {
  std::vector<std::string_view> segments;
  while (true) {
    const size_t dot = name.find_first_of("./");
    segments.push_back(name.substr(0, dot));
    if (dot == std::string_view::npos) return segments;
    name.remove_prefix(dot + 1);
  }
}

/// One segment of a pattern: * stands at its ends only, ? only where there is no *.
bool matches(std::string_view pattern, std::string_view text) {
  const bool open_front = pattern.starts_with('*');
  if (open_front) pattern.remove_prefix(1);
  const bool open_back = pattern.ends_with('*');
  if (open_back) pattern.remove_suffix(1);
  if (open_front && open_back) return text.find(pattern) != std::string_view::npos;
  if (open_front) return text.ends_with(pattern);
  if (open_back) return text.starts_with(pattern);
  return std::equal(pattern.begin(), pattern.end(), text.begin(), text.end(),
                    [](char wanted, char c) { return wanted == '?' || wanted == c; });
}

struct CompiledRule {
  const NameRule* rule;
  std::vector<std::string_view> segments;
  bool at_begin, at_end;
};

const std::vector<CompiledRule>& compiled_rules() {
  static const std::vector<CompiledRule> rules = [] {
    std::vector<CompiledRule> compiled;
    for (const NameRule& rule : kRules) {
      std::string_view text = rule.pattern;
      const bool at_begin = text.starts_with('^'), at_end = text.ends_with('$');
      if (at_begin) text.remove_prefix(1);
      if (at_end) text.remove_suffix(1);
      compiled.push_back({&rule, segments_of(text), at_begin, at_end});
    }
    return compiled;
  }();
  return rules;
}

using Segments = std::vector<std::string_view>;

bool matches_at(const CompiledRule& rule, const Segments& name, size_t first) {
  for (size_t i = 0; i < rule.segments.size(); ++i)
    if (!matches(rule.segments[i], name[first + i])) return false;
  return true;
}

size_t own_begin(const Segments& name) {
  size_t first = 0;
  while (first + 1 < name.size() && std::find(kWrappers.begin(), kWrappers.end(), name[first]) != kWrappers.end())
    ++first;
  return first;
}

/// The first segment of the match, or npos.
size_t find_match(const CompiledRule& rule, const Segments& name, size_t begin) {
  if (rule.segments.size() > name.size()) return std::string_view::npos;
  const size_t last = name.size() - rule.segments.size();
  if (rule.at_begin && rule.at_end && last != begin) return std::string_view::npos;
  size_t first = rule.at_end ? last : rule.at_begin ? begin : 0;
  const size_t stop = rule.at_begin ? begin : last;
  for (; first <= stop; ++first)
    if (matches_at(rule, name, first)) return first;
  return std::string_view::npos;
}

}  // namespace

std::string_view role_name(Role role) {
  for (const auto& [known, name] : kRoles)
    if (known == role) return name;
  throw_internal(__FILE__, __LINE__, "unknown role");
}

std::optional<Role> parse_role(std::string_view word) {
  for (const auto& [role, name] : kRoles)
    if (name == word && role != Role::Unknown) return role;
  return std::nullopt;
}

std::span<const NameRule> name_rules() { return kRules; }

NamedRole role_of(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  Segments segments = segments_of(lower);
  const Segments whole = segments;
  std::erase_if(segments, [](std::string_view segment) {
    return std::find(kInserted.begin(), kInserted.end(), segment) != kInserted.end();
  });
  if (segments.empty()) segments = whole;
  const size_t begin = own_begin(segments);
  for (const CompiledRule& rule : compiled_rules()) {
    const size_t first = find_match(rule, segments, begin);
    if (first == std::string_view::npos) continue;
    const std::string_view back = segments[first + rule.segments.size() - 1];
    const auto from = static_cast<size_t>(segments[first].data() - lower.data());
    const auto to = static_cast<size_t>(back.data() - lower.data()) + back.size();
    return {rule.rule->role, std::string(name.substr(from, to - from))};
  }
  return {};
}

DefaultChoice default_choice(const NamedRole& named, const std::vector<int64_t>& shape, bool by_name) {
  if (shape.size() != 2) return {false, named.role, fmt::format("ndim is {}", shape.size())};
  if (!by_name) return {true, named.role, "ndim is 2"};
  if (named.role == Role::Unknown) return {true, named.role, "ndim is 2, no name rule"};
  return {named.role == Role::Hidden, named.role,
          fmt::format("name rule: {} ({})", role_name(named.role), named.matched)};
}

}  // namespace stepfuse::runtime
