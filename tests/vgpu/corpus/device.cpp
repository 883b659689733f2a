// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/vgpu/corpus/device.h"

#include <stdexcept>

namespace stepfuse::vgpu::corpus {

Device::Device(std::string_view source, const Target& target, uint64_t seed, bool find_races)
    : capability_(target.capability), seed_(seed), random_(seed) {
  MachineOptions options;
  options.find_races = find_races;
  module_ = Module::load(ptx_of(source, target), memory_, options);
}

Device::~Device() {
  for (const uint64_t address : allocations_) memory_.release(address);
}

uint64_t Device::allocate_bytes(size_t bytes, size_t alignment) {
  allocations_.push_back(memory_.allocate(bytes == 0 ? 1 : bytes, alignment));
  return allocations_.back();
}

std::byte* Device::host(uint64_t address, size_t bytes) { return memory_.resolve(address, bytes, false); }

std::pair<uint64_t, size_t> Device::find_variable(std::string_view name) {
  const auto found = module_->variable(name);
  if (!found) throw std::runtime_error("the module has no variable " + std::string(name));
  return *found;
}

void Device::launch(std::string_view kernel, Dim3 grid, Dim3 block, const std::vector<Argument>& arguments,
                    uint32_t dynamic_shared_bytes, bool cooperative) {
  const KernelInfo* info = module_->find(kernel);
  if (info == nullptr) throw std::runtime_error("the module has no kernel " + std::string(kernel));
  if (info->parameters.size() != arguments.size()) {
    throw std::runtime_error(std::string(kernel) + " takes " + std::to_string(info->parameters.size()) +
                             " arguments, not " + std::to_string(arguments.size()));
  }
  std::vector<std::byte> block_of_parameters(info->parameter_bytes);
  for (size_t i = 0; i < arguments.size(); i++) {
    const KernelParameter& parameter = info->parameters[i];
    if (parameter.bytes != arguments[i].bytes.size()) {
      throw std::runtime_error(std::string(kernel) + ": argument " + std::to_string(i) + " has " +
                               std::to_string(parameter.bytes) + " bytes, not " +
                               std::to_string(arguments[i].bytes.size()));
    }
    std::memcpy(block_of_parameters.data() + parameter.offset, arguments[i].bytes.data(), parameter.bytes);
  }
  Launch launch;
  launch.grid = grid;
  launch.block = block;
  launch.dynamic_shared_bytes = dynamic_shared_bytes;
  launch.cooperative = cooperative;
  launch.seed = seed_;
  module_->run(kernel, launch, block_of_parameters.data());
}

}  // namespace stepfuse::vgpu::corpus
