// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "codegen/cpu/schemes.h"

#include "codegen/cpu/body.h"

namespace stepfuse::codegen {

namespace {

class SchemeEmitter {
 public:
  SchemeEmitter(Builder& b, const KernelSpec& spec, const Frame& frame, unsigned width)
      : b_(b), spec_(spec), frame_(frame), width_(width), body_(b, spec, frame) {
    const unsigned columns = spec.scheme == Scheme::Cols ? width : 1;
    for (const Reduction& r : spec.reductions) accumulators_.emplace_back(b, r, columns);
  }

  void emit() {
    at_task();
    // Neighbours along d2 are neighbours in memory, or not: asked once per task, for all arguments.
    emit_if(b_, unit_strides(), "unit_strides", [&] { emit_walk(width_); }, [&] { emit_walk(1); });
  }

 private:
  llvm::Value* zero() { return int64(b_, 0); }
  llvm::Value* dim(size_t d) { return frame_.dims[d]; }
  bool contiguous() const { return spec_.scheme == Scheme::Linear && spec_.contiguous; }

  llvm::Value* unit_strides() {
    llvm::Value* all = b_.getTrue();
    for (size_t k = 0; k < spec_.args.size(); ++k) {
      if (!walked(spec_, spec_.args[k].varies)[2]) continue;
      all = b_.CreateAnd(all, b_.CreateICmpEQ(frame_.strides[k][2], int64(b_, 1)));
    }
    return all;
  }

  void at_task() {
    Position at;
    switch (spec_.scheme) {
      case Scheme::Linear:
        at.index = {frame_.unit, frame_.begin, frame_.begin};
        break;
      case Scheme::Rows:
        at.index = {frame_.begin, frame_.begin, zero()};
        break;
      case Scheme::Cols:
        at.index = {frame_.unit, zero(), frame_.begin};
        break;
    }
    compute_and_store(Level::Task, at);
  }

  void emit_walk(unsigned width) {
    switch (spec_.scheme) {
      case Scheme::Linear:
        return contiguous() ? walk_contiguous(width) : walk_strided(width);
      case Scheme::Rows:
        return walk_rows(width);
      case Scheme::Cols:
        return walk_columns(width);
    }
  }

  void compute_and_store(Level level, const Position& at) {
    body_.compute(level, at);
    body_.store(level, at);
  }

  llvm::Value* chunks(llvm::Value* elements) {
    return b_.CreateLShr(add(b_, elements, int64(b_, kChunk - 1)), int64(b_, __builtin_ctzll(kChunk)));
  }

  /// Runs `part` over begin..end; with reductions in pieces of a chunk, whose partials go to `first_partial` + chunk.
  void in_chunks(llvm::Value* begin, llvm::Value* end, llvm::Value* first_partial,
                 const std::function<void(llvm::Value*, llvm::Value*)>& part) {
    if (accumulators_.empty()) return part(begin, end);
    emit_for(b_, begin, end, kChunk, "chunk", [&](llvm::Value* lo) {
      const unsigned columns = columns_in_use();
      for (const Accumulator& a : accumulators_) a.clear(b_, columns);
      part(lo, smaller(b_, add(b_, lo, int64(b_, kChunk)), end));
      llvm::Value* chunk = b_.CreateLShr(lo, int64(b_, __builtin_ctzll(kChunk)));
      for (size_t r = 0; r < accumulators_.size(); ++r) {
        store_partials(r, add(b_, first_partial, chunk), accumulators_[r].finish(b_, columns));
      }
    });
  }

  unsigned columns_in_use() const { return spec_.scheme == Scheme::Cols ? body_.width() : 1; }

  /// One partial, or one for each column of a group: those are chunks_of(d1) apart.
  void store_partials(size_t r, llvm::Value* index, llvm::Value* values) {
    const unsigned columns = width_of(values);
    llvm::Value* apart = columns > 1 ? chunks(dim(1)) : nullptr;
    for (unsigned j = 0; j < columns; ++j) {
      llvm::Value* value = columns > 1 ? b_.CreateExtractElement(values, uint64_t{j}) : values;
      b_.CreateStore(value, b_.CreateInBoundsGEP(b_.getDoubleTy(), frame_.partials[r], index));
      if (columns > 1) index = add(b_, index, apart);
    }
  }

  void element(const Position& at, llvm::Value* lane_index) {
    body_.compute(Level::Inner, at);
    for (size_t r = 0; r < accumulators_.size(); ++r) {
      llvm::Value* lane = b_.CreateAnd(lane_index, int64(b_, kLanes - 1));
      accumulators_[r].add(b_, lane, columns_in_use(), body_.reduced_value(spec_.reductions[r]));
    }
    body_.store(Level::Inner, at);
  }

  /// Elements lo..hi of d2 at `row`; element c counts as number first + c for reductions.
  void elements(const Position& row, llvm::Value* lo, llvm::Value* hi, llvm::Value* first, unsigned width) {
    body_.set_width(width);
    emit_for(b_, lo, hi, width, width > 1 ? "vector" : "scalar", [&](llvm::Value* c) {
      Position at = row;
      at.index[2] = c;
      element(at, add(b_, first, c));
    });
  }

  /// The same in vectors, then what is left: the same code one element wide.
  void vectors_then_tail(const Position& row, llvm::Value* lo, llvm::Value* hi, llvm::Value* first, unsigned width) {
    if (width > 1) {
      llvm::Value* middle = add(b_, lo, round_down(b_, sub(b_, hi, lo), width));
      elements(row, lo, middle, first, width);
      lo = middle;
    }
    elements(row, lo, hi, first, 1);
    body_.set_width(width);
  }

  void walk_contiguous(unsigned width) {
    const Position row{{frame_.unit, zero(), nullptr}};
    llvm::Value* first_partial = mul(b_, frame_.unit, chunks(mul(b_, dim(1), dim(2))));
    in_chunks(frame_.begin, frame_.end, first_partial,
              [&](llvm::Value* lo, llvm::Value* hi) { vectors_then_tail(row, lo, hi, zero(), width); });
  }

  void walk_strided(unsigned width) {
    llvm::Value* first_partial = mul(b_, frame_.unit, chunks(mul(b_, dim(1), dim(2))));
    in_chunks(frame_.begin, frame_.end, first_partial,
              [&](llvm::Value* lo, llvm::Value* hi) { row_segments(lo, hi, width); });
  }

  /// Cuts lo..hi of d1 x d2 at the ends of rows.
  void row_segments(llvm::Value* lo, llvm::Value* hi, unsigned width) {
    emit_loop(b_, lo, hi, "segment", [&](llvm::Value* i) {
      llvm::Value* row = b_.CreateUDiv(i, dim(2));
      llvm::Value* row_start = mul(b_, row, dim(2));
      llvm::Value* c0 = sub(b_, i, row_start);
      llvm::Value* c1 = smaller(b_, dim(2), add(b_, c0, sub(b_, hi, i)));
      const Position at{{frame_.unit, row, c0}};
      body_.set_width(width);
      compute_and_store(Level::Outer, at);
      segment(at, c0, c1, row_start, width);
      return add(b_, row_start, c1);
    });
  }

  /// With reductions, a vector must not wrap from lane 63 to lane 0: single elements up to a multiple of the width.
  void segment(const Position& at, llvm::Value* lo, llvm::Value* hi, llvm::Value* row_start, unsigned width) {
    if (width > 1 && !accumulators_.empty()) {
      llvm::Value* ahead = b_.CreateAnd(b_.CreateNeg(add(b_, row_start, lo)), int64(b_, width - 1));
      llvm::Value* aligned = smaller(b_, hi, add(b_, lo, ahead));
      elements(at, lo, aligned, row_start, 1);
      lo = aligned;
    }
    vectors_then_tail(at, lo, hi, row_start, width);
  }

  void walk_rows(unsigned width) {
    emit_for(b_, frame_.begin, frame_.end, 1, "row", [&](llvm::Value* r) {
      llvm::Value* i0 = b_.CreateUDiv(r, dim(1));
      const Position row{{i0, sub(b_, r, mul(b_, i0, dim(1))), zero()}};
      body_.set_width(width);
      compute_and_store(Level::Outer, row);
      in_chunks(zero(), dim(2), mul(b_, r, chunks(dim(2))),
                [&](llvm::Value* lo, llvm::Value* hi) { vectors_then_tail(row, lo, hi, zero(), width); });
    });
  }

  void walk_columns(unsigned width) {
    llvm::Value* begin = frame_.begin;
    if (width > 1) {
      llvm::Value* middle = add(b_, begin, round_down(b_, sub(b_, frame_.end, begin), width));
      column_groups(begin, middle, width);
      begin = middle;
    }
    column_groups(begin, frame_.end, 1);
  }

  void column_groups(llvm::Value* begin, llvm::Value* end, unsigned width) {
    body_.set_width(width);
    emit_for(b_, begin, end, width, "columns", [&](llvm::Value* c) {
      const Position top{{frame_.unit, zero(), c}};
      compute_and_store(Level::Outer, top);
      llvm::Value* column = add(b_, mul(b_, frame_.unit, dim(2)), c);
      in_chunks(zero(), dim(1), mul(b_, column, chunks(dim(1))), [&](llvm::Value* lo, llvm::Value* hi) {
        emit_for(b_, lo, hi, 1, "down", [&](llvm::Value* i1) { element({{frame_.unit, i1, c}}, i1); });
      });
    });
  }

  Builder& b_;
  const KernelSpec& spec_;
  const Frame& frame_;
  unsigned width_;
  Body body_;
  std::vector<Accumulator> accumulators_;
};

}  // namespace

void emit_scheme(Builder& b, const KernelSpec& spec, const Frame& frame, unsigned width) {
  SchemeEmitter(b, spec, frame, width).emit();
}

}  // namespace stepfuse::codegen
