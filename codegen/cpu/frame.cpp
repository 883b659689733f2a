// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "codegen/cpu/frame.h"

#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Function.h>

namespace stepfuse::codegen {

namespace {

/// KernelCall, in its order.
enum CallField : unsigned { kArgs, kStrides, kDims, kScalars, kPartials };

llvm::StructType* call_type(Builder& b) {
  llvm::Type* ptr = b.getPtrTy();
  return llvm::StructType::get(b.getContext(), {ptr, ptr, llvm::ArrayType::get(b.getInt64Ty(), 3), ptr, ptr});
}

class FrameLoader {
 public:
  FrameLoader(Builder& b, llvm::Value* call) : b_(b), call_(call), type_(call_type(b)) {}

  llvm::Value* field(CallField which) { return b_.CreateLoad(b_.getPtrTy(), b_.CreateStructGEP(type_, call_, which)); }
  llvm::Value* dim(size_t d, const char* name) {
    llvm::Value* dims = b_.CreateStructGEP(type_, call_, kDims);
    return element(dims, b_.getInt64Ty(), d, name);
  }
  llvm::Value* element(llvm::Value* array, llvm::Type* type, size_t index, const llvm::Twine& name) {
    return b_.CreateLoad(type, b_.CreateConstInBoundsGEP1_64(type, array, index), name);
  }

 private:
  Builder& b_;
  llvm::Value* call_;
  llvm::StructType* type_;
};

bool is_contiguous(const KernelSpec& spec) { return spec.scheme == Scheme::Linear && spec.contiguous; }

std::array<llvm::Value*, 3> strides_of(Builder& b, const KernelSpec& spec, size_t arg, const Frame& frame,
                                       FrameLoader& loader, llvm::Value* strides) {
  const Varies varies = walked(spec, spec.args[arg].varies);
  if (is_contiguous(spec)) {
    llvm::Value* unit = varies[2] ? mul(b, frame.dims[1], frame.dims[2]) : int64(b, 1);
    return {unit, nullptr, int64(b, 1)};
  }
  std::array<llvm::Value*, 3> out{};
  for (size_t d = 0; d < 3; ++d) {
    if (!varies[d]) continue;
    const std::string name = spec.args[arg].name + ".stride" + std::to_string(d);
    out[d] = loader.element(strides, b.getInt64Ty(), 3 * arg + d, name);
  }
  return out;
}

}  // namespace

Varies walked(const KernelSpec& spec, const Varies& varies) {
  if (!is_contiguous(spec)) return varies;
  if (varies[1] || varies[2]) return {true, false, true};
  return {varies[0], false, false};
}

Frame load_frame(Builder& b, const KernelSpec& spec, llvm::Function* function) {
  Frame frame;
  FrameLoader loader(b, function->getArg(0));
  frame.unit = function->getArg(1);
  frame.begin = function->getArg(2);
  frame.end = function->getArg(3);
  frame.dims = {loader.dim(0, "d0"), loader.dim(1, "d1"), loader.dim(2, "d2")};
  llvm::Value* args = loader.field(kArgs);
  llvm::Value* strides = is_contiguous(spec) ? nullptr : loader.field(kStrides);
  for (size_t k = 0; k < spec.args.size(); ++k) {
    frame.bases.push_back(loader.element(args, b.getPtrTy(), k, spec.args[k].name + ".base"));
    frame.strides.push_back(strides_of(b, spec, k, frame, loader, strides));
  }
  llvm::Value* scalars = spec.num_scalars > 0 ? loader.field(kScalars) : nullptr;
  for (uint32_t s = 0; s < spec.num_scalars; ++s) {
    frame.scalars.push_back(loader.element(scalars, b.getDoubleTy(), s, "s" + std::to_string(s)));
  }
  llvm::Value* partials = spec.reductions.empty() ? nullptr : loader.field(kPartials);
  for (size_t r = 0; r < spec.reductions.size(); ++r) {
    frame.partials.push_back(loader.element(partials, b.getPtrTy(), r, spec.reductions[r].name + ".partials"));
  }
  return frame;
}

}  // namespace stepfuse::codegen
