// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
//
// A Muon step on GPT-2's hidden matrices, in bf16 (where the CPU has units for it) and f32, against the same products
// written out by hand: three general products per Newton-Schulz iteration, without norms, casts and updates. They go to
// oneDNN in bf16 and to OpenBLAS in f32, each thread taking rows of every result.
#include "bench/report.h"
#include "bench/standing_threads.h"
#include "runtime/cpu/gemm.h"
#include "stepfuse/stepfuse.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <thread>
#include <unordered_map>
#include <utility>

#include <cblas.h>
#include <dnnl.hpp>
#include <omp.h>

using namespace stepfuse;

namespace {

constexpr int kIterations = 5;

struct Shape {
  int64_t rows, columns;
};

struct Subject {
  const char* name;
  std::vector<Shape> shapes;
};

std::vector<Subject> subjects() {
  const std::vector<Shape> layer = {{768, 2304}, {768, 768}, {768, 3072}, {3072, 768}};
  std::vector<Shape> two_layers = layer;
  two_layers.insert(two_layers.end(), layer.begin(), layer.end());
  return {{"768x768", {{768, 768}}}, {"768x3072", {{768, 3072}}}, {"two GPT-2 layers", two_layers}};
}

/// Multiply and add count as two: X X^T, A A and B X per iteration, of a wide n x m matrix.
double standard_flops(const std::vector<Shape>& shapes) {
  double flops = 0;
  for (const Shape& shape : shapes) {
    const auto n = static_cast<double>(std::min(shape.rows, shape.columns));
    const auto m = static_cast<double>(std::max(shape.rows, shape.columns));
    flops += kIterations * (4 * n * n * m + 2 * n * n * n);
  }
  return flops;
}

std::vector<float> normal_numbers(int64_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

/// Our optimizer over the matrices.
class MuonStep {
 public:
  MuonStep(const std::vector<Shape>& shapes, const char* dtype) {
    const GroupId group = optimizer_.add_group("muon", {{"ns_dtype", dtype}, {"lr", "1e-6"}});
    std::vector<ParameterId> ids;
    for (const Shape& shape : shapes) {
      ids.push_back(optimizer_.add_parameter(group, "w" + std::to_string(ids.size()), {shape.rows, shape.columns}));
      data_.push_back(normal_numbers(shape.rows * shape.columns));
    }
    gradients_ = data_;
    optimizer_.prepare();
    for (size_t i = 0; i < ids.size(); ++i) optimizer_.bind(ids[i], data_[i].data(), gradients_[i].data());
  }
  void run() { optimizer_.step(); }
  double flops() const { return optimizer_.summary().gemm_flops; }

 private:
  Optimizer optimizer_;
  std::vector<std::vector<float>> data_, gradients_;
};

/// The f32 products of one wide matrix, by rows of each result.
class F32Products {
 public:
  explicit F32Products(Shape shape)
      : n_(std::min(shape.rows, shape.columns)),
        m_(std::max(shape.rows, shape.columns)),
        x_(normal_numbers(n_ * m_)),
        next_(x_.size()),
        gram_(static_cast<size_t>(n_ * n_)),
        polynomial_(gram_.size()) {}

  void run(bench::StandingThreads& threads) {
    for (int i = 0; i < kIterations; ++i) {
      multiply(threads, CblasTrans, n_, m_, x_.data(), m_, x_.data(), m_, 1e-3f, gram_.data());
      multiply(threads, CblasNoTrans, n_, n_, gram_.data(), n_, gram_.data(), n_, 1e-3f, polynomial_.data());
      multiply(threads, CblasNoTrans, m_, n_, polynomial_.data(), n_, x_.data(), m_, 1e-3f, next_.data());
    }
  }

 private:
  void multiply(bench::StandingThreads& threads, CBLAS_TRANSPOSE trans_b, int64_t columns, int64_t inner,
                const float* a, int64_t lda, const float* b, int64_t ldb, float alpha, float* d) const {
    threads.run(n_, 16, [&](int64_t begin, int64_t end, int) {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, trans_b, static_cast<blasint>(end - begin),
                  static_cast<blasint>(columns), static_cast<blasint>(inner), alpha, a + begin * lda,
                  static_cast<blasint>(lda), b, static_cast<blasint>(ldb), 0, d + begin * columns,
                  static_cast<blasint>(columns));
    });
  }

  int64_t n_, m_;
  std::vector<float> x_, next_, gram_, polynomial_;
};

/// The bf16 products of one wide matrix, as plain oneDNN calls, by rows of each result.
class Bf16Products {
 public:
  Bf16Products(Shape shape, const dnnl::engine& engine, int parts)
      : n_(std::min(shape.rows, shape.columns)), m_(std::max(shape.rows, shape.columns)), engine_(engine) {
    for (auto* data : {&x_, &next_, &gram_, &polynomial_}) data->assign(static_cast<size_t>(n_ * m_), kSmall);
    for (int part = 0; part < parts; ++part) {
      const int64_t begin = n_ / 16 * part / parts * 16, end = n_ / 16 * (part + 1) / parts * 16;
      calls_[0].push_back(call(begin, end, x_, m_, matrix(m_, n_, true), x_, gram_));
      calls_[1].push_back(call(begin, end, gram_, n_, matrix(n_, n_, false), gram_, polynomial_));
      calls_[2].push_back(call(begin, end, polynomial_, n_, matrix(n_, m_, false), x_, next_));
    }
  }

  void run(bench::StandingThreads& threads) {
    for (int i = 0; i < kIterations; ++i)
      for (std::vector<Call>& parts : calls_)
        threads.run(static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end, int) {
          omp_set_num_threads(1);
          for (int64_t part = begin; part < end; ++part) parts[static_cast<size_t>(part)].run();
        });
  }

 private:
  static constexpr uint16_t kSmall = 0x3c23;  // about 0.01

  struct Call {
    dnnl::matmul primitive;
    dnnl::stream stream;
    std::unordered_map<int, dnnl::memory> arguments;
    void run() { primitive.execute(stream, arguments); }
  };

  static dnnl::memory::desc matrix(int64_t rows, int64_t columns, bool transposed) {
    const auto strides = transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{columns, 1};
    return {{rows, columns}, dnnl::memory::data_type::bf16, strides};
  }

  /// Rows begin to end of a b, where a has `inner` columns.
  Call call(int64_t begin, int64_t end, std::vector<uint16_t>& a_data, int64_t inner, const dnnl::memory::desc& b,
            std::vector<uint16_t>& b_data, std::vector<uint16_t>& d_data) {
    const int64_t columns = b.dims()[1];
    const auto a = matrix(end - begin, inner, false), d = matrix(end - begin, columns, false);
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, d), engine_);
    return {dnnl::matmul(description),
            dnnl::stream(engine_),
            {{DNNL_ARG_SRC, {a, engine_, a_data.data() + begin * inner}},
             {DNNL_ARG_WEIGHTS, {b, engine_, b_data.data()}},
             {DNNL_ARG_DST, {d, engine_, d_data.data() + begin * columns}}}};
  }

  int64_t n_, m_;
  dnnl::engine engine_;
  std::vector<uint16_t> x_, next_, gram_, polynomial_;
  std::array<std::vector<Call>, 3> calls_;
};

/// Wall time of `run`, after a pause in which the other side's threads stop spinning.
template <class Run>
double milliseconds(Run run) {
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const double start = bench::now();
  run();
  return (bench::now() - start) * 1e3;
}

template <class Ours, class Peer>
void measure(const std::string& name, const std::vector<Shape>& shapes, double our_flops, int rounds, Ours ours,
             Peer peer, bench::Report& report) {
  std::vector<double> step, products;
  for (int round = -1; round < rounds; ++round) {  // the first is warm-up
    const double a = milliseconds(ours);
    const double b = milliseconds(peer);
    if (round < 0) continue;
    step.push_back(a);
    products.push_back(b);
  }
  const bench::Spread a = bench::spread_of(step), b = bench::spread_of(products);
  report.add(name + ": step", a, "ms");
  report.add(name + ": products by hand", b, "ms");
  report.add(name + ": products by hand / step", bench::spread_of(bench::ratios(products, step)), "");
  report.add(name + ": step, flops of its plan", our_flops / a.median * 1e-6, "GFLOP/s");
  report.add(name + ": products by hand, their flops", standard_flops(shapes) / b.median * 1e-6, "GFLOP/s");
}

void measure_f32(const Subject& subject, bench::StandingThreads& threads, int rounds, bench::Report& report) {
  MuonStep ours(subject.shapes, "f32");
  std::vector<F32Products> peers;
  for (const Shape& shape : subject.shapes) peers.emplace_back(shape);
  measure(
      std::string("f32 ") + subject.name, subject.shapes, ours.flops(), rounds, [&] { ours.run(); },
      [&] {
        for (F32Products& peer : peers) peer.run(threads);
      },
      report);
}

void measure_bf16(const Subject& subject, bench::StandingThreads& threads, int rounds, bench::Report& report) {
  MuonStep ours(subject.shapes, "bf16");
  omp_set_num_threads(1);  // a primitive is made for the number of threads it finds
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  std::vector<std::unique_ptr<Bf16Products>> peers;
  for (const Shape& shape : subject.shapes)
    peers.push_back(std::make_unique<Bf16Products>(shape, engine, threads.threads()));
  const auto peer = [&] {
    for (auto& products : peers) products->run(threads);
  };
  measure(std::string("bf16 ") + subject.name, subject.shapes, ours.flops(), rounds, [&] { ours.run(); }, peer, report);
}

int run(const bench::Options& options) {
  bench::Report report("newton_schulz", options);
  bench::StandingThreads threads(bench::usable_threads());
  for (const Subject& subject : subjects()) {
    if (runtime::GemmProviders::get().library(ir::DType::BF16) != nullptr)
      measure_bf16(subject, threads, options.rounds, report);
    measure_f32(subject, threads, options.rounds, report);
  }
  return report.finish();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(bench::parse_options(argc, argv, 7));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
