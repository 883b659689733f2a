// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/schemes.h"

#include "codegen/cuda/emit_cuda.h"
#include "codegen/cuda/reduce.h"
#include "codegen/cuda/streams.h"

#include <algorithm>

namespace stepfuse::codegen {

namespace {

class KernelWriter {
 public:
  explicit KernelWriter(KernelText& text)
      : t_(text), out_(text.out), g_(text.geometry), values_(text), streams_(text, values_), sums_(text, values_) {}

  std::string write() {
    // 256 threads of 64 registers, four blocks to a multiprocessor: the compiler keeps to both.
    out_.line("extern \"C\" __global__ void __launch_bounds__({}, {})", kCudaBlockThreads,
              65536 / (kCudaBlockThreads * kCudaMaxRegisters));
    out_.open("{}(const Chunk* chunks, unsigned chunk_count, const Row* rows)", cuda_kernel_name(t_.spec));
    if (t_.spec.scheme == Scheme::Cols) {
      columns();
    } else if (t_.reduces()) {
      shared_blocks();
    } else {
      whole_blocks();
    }
    out_.close();
    return t_.reduces() ? sums_.store_results_text() : "";
  }

 private:
  // ---- Linear and Rows: threads along neighbours ----

  /// Nothing is summed: a block per chunk.
  void whole_blocks() {
    // What one thread stores in place, its neighbours must not read.
    if (!works_on_elements()) out_.line("if (threadIdx.x != 0) return;");
    out_.line("const unsigned lane = {};", scaled("threadIdx.x"));
    out_.open("for (unsigned c = blockIdx.x; c < chunk_count; c += gridDim.x)");
    out_.line("const Chunk chunk = chunks[c];");
    out_.line("const Row& row = rows[chunk.row];");
    out_.line("if (row.skip != nullptr && *row.skip != 0) continue;");
    extents("");
    chunk_values();
    if (works_on_elements()) elements();
    out_.close();
  }

  bool works_on_elements() const {
    return std::any_of(t_.spec.args.begin(), t_.spec.args.end(),
                       [&](const KernelArg& arg) { return cuda_level(t_.spec, arg.varies) != CudaLevel::Chunk; });
  }

  /// Several chunks per block, each with as many threads as make a row of 64 lanes.
  void shared_blocks() {
    out_.line("const unsigned group = threadIdx.x / {}, lane = {};", g_.group,
              scaled(fmt::format("threadIdx.x % {}", g_.group)));
    out_.line("__shared__ bool finished[{}];", g_.chunks_per_block);
    out_.open("for (unsigned first = blockIdx.x * {0}; first < chunk_count; first += gridDim.x * {0})",
              g_.chunks_per_block);
    sums_.declare_lanes();
    out_.line("// Every thread stays to the end, with nothing to add if its chunk is not there or must be skipped.");
    out_.open_scope();
    own_chunk("chunks", "rows");
    extents("live ? ");
    chunk_values();
    elements();
    out_.close();
    t_.helpers.use(CudaHelper::Reload);
    own_chunk("reload(chunks)", "reload(rows)");
    out_.line("const long long extent = {};", extent());
    sums_.fold();
    hand_in();
    finish();
    out_.close();
  }

  std::string scaled(const std::string& thread) const {
    return g_.vector == 1 ? thread : fmt::format("{} * {}", thread, g_.vector);
  }

  void own_chunk(std::string_view chunks, std::string_view rows) {
    out_.line("const Chunk chunk = {}[min(first + group, chunk_count - 1)];", chunks);
    out_.line("const Row& row = {}[chunk.row];", rows);
    out_.line("const bool live = first + group < chunk_count && (row.skip == nullptr || *row.skip == 0);");
  }

  std::string_view extent() const { return t_.spec.scheme == Scheme::Rows ? "row.d2" : "row.d1 * row.d2"; }

  void extents(std::string_view only_if) {
    out_.line("const long long extent = {};", extent());
    out_.line("const long long begin = chunk.index * {}ll;", kChunk);
    const bool maybe = !only_if.empty();
    out_.line("const unsigned count = {}static_cast<unsigned>(min(extent - begin, {}ll)){};", only_if, kChunk,
              maybe ? " : 0" : "");
  }

  void chunk_values() {
    if (t_.spec.scheme == Scheme::Rows && streams_.needs_row_indices()) {
      out_.line("const unsigned i0 = chunk.unit / static_cast<unsigned>(row.d1);");
      out_.line("const unsigned i1 = chunk.unit % static_cast<unsigned>(row.d1);");
    }
    if (cuda_contiguous(t_.spec)) out_.line("const long long origin = chunk.unit * extent + begin;");
    if (cuda_walks_rows(t_.spec)) {
      out_.line("const unsigned cols = static_cast<unsigned>(max(row.d2, 1ll));");
      out_.line(
          "const unsigned row0 = static_cast<unsigned>(begin / cols), col0 = static_cast<unsigned>(begin % cols);");
    }
    once_per_chunk();
  }

  void once_per_chunk() {
    if (t_.spec.num_scalars > 0) {
      t_.helpers.use(CudaHelper::Global);
      out_.line("const double* const scalars = global(row.scalars);");
      values_.declare_scalars(CudaLevel::Chunk);
    }
    streams_.enter_chunk();
    values_.compute(CudaLevel::Chunk);
    streams_.store_once(CudaLevel::Chunk);
  }

  /// The loop over the elements of a chunk that are this thread's.
  void elements() {
    out_.open("for (unsigned i = lane; i < count; i += {})", t_.spacing() * g_.batch);
    if (t_.staged()) {
      staged_batch();
    } else {
      direct_batch();
    }
    streams_.advance();
    out_.close();
  }

  std::string position() const {
    if (!t_.loops_over_batch()) return "const unsigned j = i;";
    return fmt::format("const unsigned j = i + {} * b;", t_.spacing());
  }

  template <class Part>
  void over_batch(Part part) {
    if (t_.loops_over_batch()) t_.open_unrolled("for (unsigned b = 0; b < {}; ++b)", g_.batch);
    part();
    if (t_.loops_over_batch()) out_.close();
  }

  void staged_batch() {
    if (!t_.loops_over_batch()) out_.line("{}", position());
    const auto positioned = [&](bool needed, auto part) {
      over_batch([&] {
        if (t_.loops_over_batch() && needed) out_.line("{}", position());
        part();
      });
    };
    streams_.declare();
    positioned(true, [&] { streams_.load(); });
    positioned(t_.reduces(), [&] { over_neighbours(); });
    if (stores_streams()) positioned(true, [&] { streams_.store(); });
  }

  bool stores_streams() const {
    for (const Store& store : t_.spec.stores)
      if (cuda_level(t_.spec, t_.spec.args[store.arg].varies) == CudaLevel::Element) return true;
    return false;
  }

  void direct_batch() {
    over_batch([&] {
      out_.line("{}", position());
      if (!t_.vectors()) out_.open("if (j < count)");
      out_.line("const unsigned i1 = row0 + (col0 + j) / cols, i2 = (col0 + j) % cols;");
      streams_.load_run();
      values_.compute(CudaLevel::Run);
      streams_.declare();
      streams_.load();
      over_neighbours();
      streams_.store();
      streams_.store_once(CudaLevel::Run);
      if (!t_.vectors()) out_.close();
    });
  }

  void over_neighbours() {
    if (t_.vectors()) t_.open_unrolled("for (unsigned k = 0; k < {}; ++k)", g_.vector);
    element();
    if (t_.vectors()) out_.close();
  }

  void element() {
    if (!g_.scalars_stay) values_.declare_scalars(CudaLevel::Element);
    streams_.name_elements();
    values_.compute(CudaLevel::Element);
    const bool inside = !t_.vectors() && !t_.staged();
    const std::string lane = t_.vectors() ? "k" : t_.loops_over_batch() ? fmt::format("b % {}", g_.lanes) : "0";
    sums_.accumulate(lane, inside ? "" : t_.vectors() ? "j + k < count" : "j < count");
    streams_.keep();
  }

  /// The first thread of each chunk stores its partials, or the results where it is the only one.
  void hand_in() {
    out_.line("const unsigned parts = static_cast<unsigned>(max((extent + {}) / {}, 1ll));", kChunk - 1, kChunk);
    out_.open("if (lane == 0)");
    out_.line("finished[group] = false;");
    out_.open("if (live && parts == 1)");
    sums_.store_results("chunk.unit");
    out_.close_and_open("else if (live)");
    out_.line("const long long at = static_cast<long long>(chunk.unit) * parts + chunk.index;");
    sums_.store_partials("at");
    out_.line("__threadfence();");
    out_.line("finished[group] = atomicAdd(row.tickets + chunk.unit, 1u) == parts - 1;");
    out_.line("__threadfence();");
    out_.close();
    out_.close();
  }

  /// The whole block adds up the units of which it did the last chunk.
  void finish() {
    out_.line("__syncthreads();");
    out_.open("for (unsigned slot = 0; slot < {}; ++slot)", g_.chunks_per_block);
    out_.line("if (!finished[slot]) continue;");
    out_.line("const Chunk chunk = chunks[first + slot];");
    out_.line("const Row& row = rows[chunk.row];");
    out_.line("const long long extent = {};", extent());
    out_.line("const unsigned parts = static_cast<unsigned>((extent + {}) / {});", kChunk - 1, kChunk);
    sums_.fold_partials("static_cast<long long>(chunk.unit) * parts");
    out_.open("if (threadIdx.x == 0)");
    sums_.store_results("chunk.unit");
    out_.line("row.tickets[chunk.unit] = 0;");
    out_.close();
    out_.close();
    out_.line("__syncthreads();");
  }

  // ---- Cols: a thread per column, eight rows at a time ----

  void columns() {
    out_.line("const unsigned x = threadIdx.x % {0}, y = threadIdx.x / {0};", kCudaColumns);
    if (t_.reduces()) out_.line("__shared__ bool last;");
    out_.open("for (unsigned c = blockIdx.x; c < chunk_count; c += gridDim.x)");
    out_.line("const Chunk chunk = chunks[c];");
    out_.line("const Row& row = rows[chunk.row];");
    out_.line("if (row.skip != nullptr && *row.skip != 0) continue;");
    out_.line("const unsigned cols = static_cast<unsigned>(row.d2);");
    out_.line("const bool inside = chunk.index * {} + x < cols;", kCudaColumns);
    out_.line("const unsigned column = min(chunk.index * {} + x, cols - 1);", kCudaColumns);
    out_.line("const long long begin = chunk.part * {}ll;", kChunk);
    out_.line("const unsigned count = inside ? static_cast<unsigned>(min(row.d1 - begin, {}ll)) : 0;", kChunk);
    once_per_chunk();
    sums_.declare_lanes();
    out_.open("for (unsigned i = y; i < count; i += {})", kLanes);
    t_.open_unrolled("for (unsigned b = 0; b < {}; ++b)", g_.batch);
    out_.line("const unsigned j = i + {} * b;", t_.spacing());
    out_.open("if (j < count)");
    streams_.name_elements();
    values_.compute(CudaLevel::Element);
    sums_.accumulate("b", "");
    streams_.keep();
    out_.close();
    out_.close();
    streams_.advance();
    out_.close();
    if (t_.reduces()) finish_columns();
    out_.close();
  }

  void finish_columns() {
    sums_.fold();
    out_.line("const unsigned parts = static_cast<unsigned>(max((row.d1 + {}) / {}, 1ll));", kChunk - 1, kChunk);
    out_.line("const long long result = static_cast<long long>(chunk.unit) * cols + column;");
    out_.open("if (parts == 1)");
    out_.open("if (y == 0 && inside)");
    sums_.store_results("result");
    out_.close();
    out_.line("continue;");
    out_.close();
    out_.open("if (y == 0 && inside)");
    sums_.store_partials("result * parts + chunk.part");
    out_.line("__threadfence();");
    out_.close();
    out_.line("__syncthreads();");
    out_.line("unsigned* const ticket = row.tickets + chunk.unit * ((cols + {}) / {}) + chunk.index;", kCudaColumns - 1,
              kCudaColumns);
    out_.line("if (threadIdx.x == 0) last = atomicAdd(ticket, 1u) == parts - 1;");
    out_.line("__syncthreads();");
    out_.open("if (last)");
    out_.line("__threadfence();");
    out_.open("if (y == 0 && inside)");
    sums_.fold_partials("result * parts");
    sums_.store_results("result");
    out_.close();
    out_.line("if (threadIdx.x == 0) *ticket = 0;");
    out_.close();
    out_.line("__syncthreads();");
  }

  KernelText& t_;
  CodeWriter& out_;
  const CudaGeometry& g_;
  CudaValues values_;
  CudaStreams streams_;
  CudaReductions sums_;
};

}  // namespace

std::string write_cuda_kernel(KernelText& text) { return KernelWriter(text).write(); }

}  // namespace stepfuse::codegen
