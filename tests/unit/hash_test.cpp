// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "ir/hash.h"

#include "ir/parse.h"
#include "ir/print.h"

#include <map>

#include <gtest/gtest.h>

namespace stepfuse::ir {
namespace {

std::string sgd(const std::string& body,
                const std::string& inputs = "%p: f32[N] param, %g: f32[N] grad, #lr: group = 1") {
  return "// stepfuse-ir v1\nrecipe @sgd(" + inputs + ") {\n" + body + "}\n";
}

Hash128 hash_of(const std::string& text) {
  const auto graph = parse(text);
  EXPECT_TRUE(graph.has_value()) << graph.error().message;
  return graph ? structural_hash(*graph) : Hash128{};
}

const std::string kBody = "  %s = mul %g, #lr\n  %r = sub %p, %s\n  return %r -> %p\n";

TEST(Hash, IsTheSameOnEveryMachine) {
  EXPECT_EQ(hash_bytes("stepfuse").hex(), "9fc9c51423abf9a18f72ffa14a51d1db");
  EXPECT_EQ(hash_of(sgd(kBody)).hex(), "23afcd341d63e9e295407e9d6585bc17");
}

TEST(Hash, HexShowsBothHalvesWithLeadingZeros) {
  EXPECT_EQ((Hash128{0xab, 1}.hex()), "00000000000000ab0000000000000001");
}

TEST(Hash, IgnoresNamesDefaultsDeadValuesAndOrder) {
  const Hash128 hash = hash_of(sgd(kBody));
  const std::map<std::string, std::string> same{
      {"names", sgd("  %a = mul %grad, #x\n  %b = sub %w, %a\n  return %b -> %w\n",
                    "%w: f32[K] param, %grad: f32[K] grad, #x: group")},
      {"range", sgd(kBody, "%p: f32[N] param, %g: f32[N] grad, #lr: group in [0, 1)")},
      {"dead", sgd("  %dead = mul %g, 3\n  #d = #lr * 7\n" + kBody)},
      {"recipe", "// stepfuse-ir v1\nrecipe @other" + sgd(kBody).substr(sgd(kBody).find('('))},
  };
  for (const auto& [name, text] : same) EXPECT_EQ(hash_of(text), hash) << name;
  const std::string two = "%p: f32[N] param, %g: f32[N] grad, %m: f32[N] state \"m\"";
  EXPECT_EQ(hash_of(sgd("  %a = mul %g, 2\n  %b = mul %m, 3\n  return %a -> %p, %b -> %m\n", two)),
            hash_of(sgd("  %b = mul %m, 3\n  %a = mul %g, 2\n  return %b -> %m, %a -> %p\n", two)));
}

TEST(Hash, SeesEverythingElse) {
  const std::string inputs = "%p: f32[N, M] param, %g: f32[N, M] grad, %m: f32[N, M] state \"m\", #lr: group";
  const auto with = [&](const std::string& body) { return sgd(body + "  return %r -> %p\n", inputs); };
  const std::string base = "%p: f32[N, M] param, %g: f32[N, M] grad, %m: f32[N, M] state \"m\", #lr: group";
  std::map<std::string, std::string> texts{
      {"sub", with("  %r = sub %p, %g\n")},
      {"swapped", with("  %r = sub %g, %p\n")},
      {"add", with("  %r = add %p, %g\n")},
      {"constant", with("  %r = sub %p, 1\n")},
      {"other constant", with("  %r = sub %p, 2\n")},
      {"negative zero", with("  %r = sub %p, -0.0\n")},
      {"zero", with("  %r = sub %p, 0\n")},
      {"scalar", with("  %r = sub %p, #lr\n")},
      {"other input", with("  %r = sub %p, %m\n")},
      {"placement", with("  %r = sub %p, %g @0.0\n")},
      {"phase", with("  %r = sub %p, %g @0.1\n")},
      {"type", with("  %s = mul %g, 2 : bf16\n  %r = sub %p, %s : f32\n")},
      {"other type", with("  %s = mul %g, 2 : f16\n  %r = sub %p, %s : f32\n")},
      {"rows", with("  %s = sum %g {rows}\n  %r = sub %p, %s\n")},
      {"cols", with("  %s = sum %g {cols}\n  %r = sub %p, %s\n")},
      {"matmul", with("  %s = matmul %g, %g {tb}\n  %r = matmul %s, %p\n")},
      {"symmetric", with("  %s = matmul %g, %g {tb, sym}\n  %r = matmul %s, %p\n")},
      {"also state", sgd("  %r = sub %p, %g\n  return %r -> %p, %r -> %m\n", inputs)},
  };
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = base;
    other.replace(other.find(from), from.size(), to);
    return sgd("  %r = sub %p, %g\n  return %r -> %p\n", other);
  };
  texts["key"] = changed("\"m\"", "\"v\"");
  texts["rate"] = changed("group", "per_parameter");
  texts["kind"] = changed("grad", "state \"g\"");
  texts["extra input"] = changed("#lr: group", "#lr: group, #wd: group");
  std::string square = inputs;
  for (size_t at; (at = square.find('M')) != std::string::npos;) square[at] = 'N';
  texts["square"] = sgd("  %r = sub %p, %g\n  return %r -> %p\n", square);
  std::map<Hash128, std::string> seen;
  for (const auto& [name, text] : texts) {
    const auto [it, fresh] = seen.emplace(hash_of(text), name);
    EXPECT_TRUE(fresh) << name << " has the hash of " << it->second;
  }
}

TEST(Hash, SurvivesPrintingAndParsing) {
  Graph graph;
  graph.add_const(7);  // before its use, and in another order than the parser would make it
  const Type type = tensor_type(DType::F32, make_shape({Extent::symbol(graph.add_symbol("N"))}));
  const ValueId p = graph.add_input({InputKind::Param, "p", "", type, {}, {}, {}});
  const ValueId two = graph.add_const(2);
  const ValueId half = emit(graph, Op::Div, {graph.add_const(1), two});
  const ValueId result = emit(graph, Op::Axpy, {half, p, emit(graph, Op::Mul, {p, two})});
  graph.add_output(result, p);
  const auto again = parse(print(graph));
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(structural_hash(graph), structural_hash(*again));
}

TEST(Hash, DeepGraphsNeedNoStack) {
  Graph graph;
  const ValueId p = graph.add_input({InputKind::Param, "p", "", tensor_type(DType::F32, {}), {}, {}, {}});
  ValueId value = p;
  for (int i = 0; i < 200'000; ++i) value = emit(graph, Op::Neg, {value});
  graph.add_output(value, p);
  EXPECT_NE(structural_hash(graph), Hash128{});
}

}  // namespace
}  // namespace stepfuse::ir
