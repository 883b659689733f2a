// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// Batches by arrays of pointers: against strided ones on the same memory, and as the lower tiles of a symmetric
// product against the whole of it. And what scalars on the device and results in f32 cost.
#include "bench/gpu/parts.h"
#include "bench/gpu/products.h"

namespace stepfuse::gpu_check {

namespace {

/// The triangle of X X^T in t x t tiles: what a batch of pointers computes, and the whole product beside it.
struct Triangle {
  int64_t tiles, edge;
  int64_t rows() const { return tiles * edge; }
  int64_t count() const { return tiles * (tiles + 1) / 2; }
};

std::vector<Triangle> triangles(const Bench& bench) {
  if (bench.is_short) return {{3, 16}};
  return {{3, 256}, {4, 256}, {8, 256}, {4, 512}, {8, 512}, {4, 1024}, {8, 1024}};
}

std::string label(const Triangle& triangle) {
  return fmt::format("{} tiles of {} x {} x {} in bf16", triangle.count(), triangle.edge, triangle.edge,
                     triangle.rows());
}

/// The same batch of tiles, the same memory: only the way to name it differs.
void pointers_against_strides(const Bench& bench, const Triangle& triangle) {
  const ProductSpec strided{
      .m = triangle.edge, .n = triangle.edge, .k = triangle.rows(), .batch = triangle.count(), .trans_b = true};
  ProductSpec arrays = strided;
  arrays.pointer_arrays = true;
  const OwnedProduct by_stride(bench.gpu, strided), by_pointer(bench.gpu, arrays);
  const Repeated first(bench, strided.flops(), [&] { by_stride.enqueue(); });
  const Repeated second(bench, strided.flops(), [&] { by_pointer.enqueue(); });
  const auto samples = bench.gpu.interleave(bench.rounds, {first.launch(), second.launch()});
  const auto rate = [&](double seconds) { return strided.flops() * first.times() / seconds; };
  bench.report.figure("strided batch: " + label(triangle), "FLOP/s", converted(samples[0], rate));
  bench.report.figure("pointer array: " + label(triangle), "FLOP/s", converted(samples[1], rate));
  bench.report.figure("pointer array speed / strided speed: " + label(triangle), "ratio",
                      ratios(samples[0], samples[1]));
}

void triangle_against_whole(const Bench& bench, const Triangle& triangle) {
  const int64_t rows = triangle.rows(), element = 2;
  const Buffer x(bench.gpu, rows * rows * element), result(bench.gpu, rows * rows * element);
  bench.gpu.fill(x, ElementType::BF16, 0.05);
  Product whole(bench.gpu, {.m = rows, .n = rows, .k = rows, .trans_b = true}, 1, 0);
  whole.bind({x.address(), x.address(), 0, result.address()});
  // Tiles of D are rows of a larger matrix, which a Product does not know: dense tiles stand for them.
  Product lower(bench.gpu,
                {.m = triangle.edge,
                 .n = triangle.edge,
                 .k = rows,
                 .batch = triangle.count(),
                 .trans_b = true,
                 .pointer_arrays = true},
                1, 0);
  std::vector<Operands> tiles;
  const auto block = static_cast<uint64_t>(triangle.edge * rows * element);
  const auto tile = static_cast<uint64_t>(triangle.edge * triangle.edge * element);
  for (uint64_t i = 0; i < static_cast<uint64_t>(triangle.tiles); ++i)
    for (uint64_t j = 0; j <= i; ++j)
      tiles.push_back({x.address() + i * block, x.address() + j * block, 0, result.address() + tiles.size() * tile});
  lower.bind_arrays(tiles);
  const double flops = 2.0 * static_cast<double>(rows) * static_cast<double>(rows) * static_cast<double>(rows);
  const Repeated all(bench, flops, [&] { whole.enqueue(); }), part(bench, flops, [&] { lower.enqueue(); });
  const auto samples = bench.gpu.interleave(bench.rounds, {all.launch(), part.launch()});
  bench.report.figure(fmt::format("whole X X^T time / lower tiles time: {}", label(triangle)), "ratio",
                      ratios(samples[0], samples[1]));
}

struct Variant {
  const char* name;
  bool has_c;
  bool device_scalars;
  ir::DType d;
};
constexpr Variant kVariants[] = {
    {"host scalars, bf16 result", false, false, ir::DType::BF16},
    {"device scalars, bf16 result", false, true, ir::DType::BF16},
    {"host scalars, bf16 C and result", true, false, ir::DType::BF16},
    {"device scalars, bf16 C and result", true, true, ir::DType::BF16},
    {"device scalars, f32 C and result", true, true, ir::DType::F32},
};

void compare_variants(const Bench& bench, const ProductSpec& plain, const std::string& name) {
  int times = 1;
  std::vector<std::unique_ptr<OwnedProduct>> products;
  std::vector<Work> works;
  std::vector<std::string> names;
  for (const Variant& variant : kVariants) {
    ProductSpec spec = plain;
    spec.has_c = variant.has_c;
    spec.device_scalars = variant.device_scalars;
    spec.d = variant.d;
    const auto candidates = must(runtime::LtProduct::candidates(bench.gpu.lt(), request_of(spec), 1));
    bench.report.fact(fmt::format("supported: {}, {}", name, variant.name), !candidates.empty());
    if (candidates.empty()) continue;
    products.push_back(std::make_unique<OwnedProduct>(bench.gpu, spec));
    const Repeated repeated(bench, plain.flops(), [product = products.back().get()] { product->enqueue(); });
    works.push_back(repeated.launch());
    times = repeated.times();
    names.emplace_back(variant.name);
  }
  const auto samples = bench.gpu.interleave(bench.rounds, works);
  for (size_t i = 0; i < names.size(); ++i) {
    bench.report.figure(fmt::format("{}, {}", name, names[i]), "FLOP/s",
                        converted(samples[i], [&](double seconds) { return plain.flops() * times / seconds; }));
    if (i != 0)
      bench.report.figure(fmt::format("time of {}, {} / {}", name, names[i], names[0]), "ratio",
                          ratios(samples[i], samples[0]));
  }
}

}  // namespace

void compare_batches(const Bench& bench) {
  for (const Triangle& triangle : triangles(bench)) {
    pointers_against_strides(bench, triangle);
    triangle_against_whole(bench, triangle);
  }
}

void compare_scalars(const Bench& bench) {
  const ProductSpec batch = bench.is_short ? ProductSpec{.m = 16, .n = 32, .k = 16, .batch = 3}
                                           : ProductSpec{.m = 768, .n = 3072, .k = 768, .batch = 24};
  const ProductSpec single =
      bench.is_short ? ProductSpec{.m = 16, .n = 32, .k = 16} : ProductSpec{.m = 4096, .n = 11008, .k = 4096};
  const auto name = [](const ProductSpec& spec) {
    return fmt::format("{} x ({} x {} x {})", spec.batch, spec.m, spec.n, spec.k);
  };
  for (const ProductSpec& spec : {batch, single}) compare_variants(bench, spec, name(spec));
}

}  // namespace stepfuse::gpu_check
