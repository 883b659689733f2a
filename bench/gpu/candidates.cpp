// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// What timing cuBLASLt's candidates gains over its first one, on the products of Newton-Schulz iterations. And how
// many matrices should go through all iterations together before the next ones come (sub-batches that stay in the
// second-level cache).
#include "bench/gpu/parts.h"
#include "bench/gpu/products.h"

#include <algorithm>

namespace stepfuse::gpu_check {

namespace {

constexpr int kCandidates = 16;

struct Shape {
  int64_t rows, columns, batch;
};

std::vector<Shape> shapes(const Bench& bench) {
  if (bench.is_short) return {{16, 48, 2}};
  return {{768, 768, 24}, {768, 3072, 24}, {4096, 11008, 1}, {768, 2048, 32}};
}

/// A = X X^T, B = b A + c A A, X' = a X + B X.
std::vector<std::pair<const char*, ProductSpec>> iteration(const Shape& s) {
  return {{"X X^T", {.m = s.rows, .n = s.rows, .k = s.columns, .batch = s.batch, .trans_b = true}},
          {"b A + c A A", {.m = s.rows, .n = s.rows, .k = s.rows, .batch = s.batch, .has_c = true}},
          {"a X + B X", {.m = s.rows, .n = s.columns, .k = s.rows, .batch = s.batch, .has_c = true}}};
}

/// Each candidate's median, in the library's order.
Samples medians(const Bench& bench, const ProductSpec& spec) {
  const auto algorithms = must(runtime::LtProduct::candidates(bench.gpu.lt(), request_of(spec), kCandidates));
  const ProductMemory memory(bench.gpu, spec);
  int times = 1;
  std::vector<std::unique_ptr<const Product>> products;
  std::vector<Work> works;
  for (const cuda::cublasLtMatmulAlgo_t& algorithm : algorithms) {
    products.push_back(std::make_unique<const Product>(product_on(bench.gpu, spec, memory, algorithm)));
    const Repeated repeated(bench, spec.flops(), [product = products.back().get()] { product->enqueue(); });
    works.push_back(repeated.launch());
    times = repeated.times();
  }
  Samples result;
  for (const Samples& samples : bench.gpu.interleave(bench.rounds, works)) result.push_back(median(samples) / times);
  return result;
}

/// Buffers of matrices on their way through five iterations.
struct IterationMemory {
  IterationMemory(const Gpu& gpu, const Shape& total)
      : x(gpu, total.batch * total.rows * total.columns * 2),
        y(gpu, x.bytes()),
        a(gpu, total.batch * total.rows * total.rows * 2),
        b(gpu, a.bytes()) {
    gpu.fill(x, ElementType::BF16, 0.5 / static_cast<double>(std::max(total.rows, total.columns)));
  }
  Buffer x, y, a, b;
};

class Group {
 public:
  Group(const Bench& bench, const IterationMemory& memory, const Shape& total, int64_t sub_batch)
      : memory_(memory), total_(total), sub_batch_(sub_batch) {
    const auto specs = iteration({total.rows, total.columns, sub_batch});
    gram_ = std::make_unique<Product>(bench.gpu, specs[0].second, 1.0F, 0.0F);
    square_ = std::make_unique<Product>(bench.gpu, specs[1].second, 2.0315F, -4.775F);
    update_ = std::make_unique<Product>(bench.gpu, specs[2].second, 1.0F, 3.4445F);
  }

  /// Five iterations for each sub-batch, one sub-batch after the other.
  void enqueue() {
    for (int64_t first = 0; first < total_.batch; first += sub_batch_) {
      const auto wide = static_cast<uint64_t>(first * total_.rows * total_.columns * 2);
      const auto square = static_cast<uint64_t>(first * total_.rows * total_.rows * 2);
      uint64_t x = memory_.x.address() + wide, y = memory_.y.address() + wide;
      const uint64_t a = memory_.a.address() + square, b = memory_.b.address() + square;
      for (int i = 0; i < 5; ++i, std::swap(x, y)) {
        run(*gram_, {x, x, 0, a});
        run(*square_, {a, a, a, b});
        run(*update_, {b, x, x, y});
      }
    }
  }

 private:
  static void run(Product& product, const Operands& operands) {
    product.bind(operands);
    product.enqueue();
  }

  const IterationMemory& memory_;
  Shape total_;
  int64_t sub_batch_;
  std::unique_ptr<Product> gram_, square_, update_;
};

}  // namespace

void compare_candidates(const Bench& bench) {
  Samples gains;
  for (const Shape& shape : shapes(bench)) {
    for (const auto& [name, spec] : iteration(shape)) {
      const Samples seconds = medians(bench, spec);
      const std::string what = fmt::format("{} of {} x ({} x {})", name, shape.batch, shape.rows, shape.columns);
      bench.report.fact("lt candidates: " + what, seconds.size());
      if (seconds.empty()) continue;
      const double best = *std::min_element(seconds.begin(), seconds.end());
      gains.push_back(seconds.front() / best);
      bench.report.figure("best candidate: " + what, "FLOP/s", {spec.flops() / best});
      bench.report.figure("first candidate time / best candidate time: " + what, "ratio", {gains.back()});
    }
  }
  bench.report.figure("first candidate time / best candidate time, all products", "ratio", gains);
}

void sweep_sub_batches(const Bench& bench) {
  const Shape total = bench.is_short ? Shape{16, 48, 4} : Shape{768, 2048, 384};
  const std::vector<int64_t> sub_batches =
      bench.is_short ? std::vector<int64_t>{2, 4} : std::vector<int64_t>{4, 8, 16, 32, 48, 64, 96, 128, 384};
  const IterationMemory memory(bench.gpu, total);
  std::vector<std::unique_ptr<Group>> groups;
  std::vector<std::unique_ptr<const Graph>> graphs;
  std::vector<Work> works;
  for (const int64_t sub_batch : sub_batches) {
    groups.push_back(std::make_unique<Group>(bench, memory, total, sub_batch));
    groups.back()->enqueue();
    bench.gpu.wait();
    graphs.push_back(std::make_unique<const Graph>(bench.gpu, [&] { groups.back()->enqueue(); }));
    works.push_back([graph = graphs.back().get()] { graph->launch(); });
  }
  const auto samples = bench.gpu.interleave(bench.rounds, works);
  for (size_t i = 0; i < samples.size(); ++i) {
    const std::string what = fmt::format("15 products of {} x ({} x {}), {} at a time", total.batch, total.rows,
                                         total.columns, sub_batches[i]);
    bench.report.figure(what, "s", samples[i]);
    bench.report.figure("time of all at once / " + what, "ratio", ratios(samples.back(), samples[i]));
  }
}

}  // namespace stepfuse::gpu_check
