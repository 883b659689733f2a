// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/nvrtc.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>

#include <dlfcn.h>

namespace stepfuse::runtime {

namespace {

namespace fs = std::filesystem;

constexpr int kOldestMajor = 12, kNewestMajor = 13;

/// Destroyed at the end; a program is used by one thread.
class Program {
 public:
  explicit Program(const cuda::NvrtcFunctions& call) : call_(call) {}
  ~Program() {
    if (program_ != nullptr) call_.nvrtcDestroyProgram(&program_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  cuda::nvrtcResult create(const std::string& source, const std::string& name) {
    return call_.nvrtcCreateProgram(&program_, source.c_str(), name.c_str(), 0, nullptr, nullptr);
  }

  cuda::nvrtcResult compile(const std::vector<std::string>& options) const {
    std::vector<const char*> pointers;
    for (const std::string& option : options) pointers.push_back(option.c_str());
    return call_.nvrtcCompileProgram(program_, static_cast<int>(pointers.size()), pointers.data());
  }

  /// A text with its closing zero, or machine code.
  std::string read(cuda::nvrtcResult (*size_of)(cuda::nvrtcProgram, size_t*),
                   cuda::nvrtcResult (*get)(cuda::nvrtcProgram, char*)) const {
    size_t size = 0;
    if (size_of(program_, &size) != cuda::NVRTC_SUCCESS || size == 0) return {};
    std::string bytes(size, '\0');
    return get(program_, bytes.data()) == cuda::NVRTC_SUCCESS ? bytes : std::string();
  }
  std::string text(cuda::nvrtcResult (*size_of)(cuda::nvrtcProgram, size_t*),
                   cuda::nvrtcResult (*get)(cuda::nvrtcProgram, char*)) const {
    std::string read_text = read(size_of, get);
    return read_text.substr(0, read_text.find('\0'));
  }

 private:
  const cuda::NvrtcFunctions& call_;
  cuda::nvrtcProgram program_ = nullptr;
};

/// The number before `unit`, such as 8 in "Used 8 registers"; 0 if the text does not have it.
int number_before(std::string_view text, std::string_view unit) {
  const size_t end = text.find(unit);
  if (end == std::string_view::npos) return 0;
  size_t begin = end;
  while (begin > 0 && text[begin - 1] >= '0' && text[begin - 1] <= '9') --begin;
  int value = 0;
  std::from_chars(text.data() + begin, text.data() + end, value);
  return value;
}

}  // namespace

std::optional<KernelUsage> read_usage(std::string_view log) {
  std::optional<KernelUsage> usage;
  int spills = 0;
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(line.size() + 1, log.size()));
    spills = std::max(spills, number_before(line, " bytes spill stores") + number_before(line, " bytes spill loads"));
    const int registers = number_before(line, " registers");
    if (registers == 0) continue;
    if (!usage) usage.emplace();
    usage->registers = std::max(usage->registers, registers);
    usage->shared_bytes = std::max(usage->shared_bytes, number_before(line, " bytes smem"));
  }
  if (usage) usage->spill_bytes = spills;
  return usage;
}

const LibrarySpec& Nvrtc::library() {
  static const LibrarySpec spec{"NVRTC",
                                "nvrtc",
                                "libnvrtc.so.",
                                {kNewestMajor, kOldestMajor},
                                {"cu13/lib", "cuda_nvrtc/lib"},
                                "install CUDA's toolkit, or `pip install nvidia-cuda-nvrtc` into the active Python "
                                "environment"};
  return spec;
}

Outcome Nvrtc::load() {
  STEPFUSE_TRY(opened_.bind("it", "nvrtcVersion", call_.nvrtcVersion));
  if (call_.nvrtcVersion(&major_, &minor_) != cuda::NVRTC_SUCCESS)
    return fail(StatusCode::Environment, "it does not tell its version");
  if (major_ < kOldestMajor || major_ > kNewestMajor)
    return fail(StatusCode::Environment, "it is NVRTC {}; this version of Stepfuse takes major {} or {}", version(),
                kNewestMajor, kOldestMajor);
#define NVRTC_FUNCTION(result, name, parameters) STEPFUSE_TRY(opened_.bind("it", #name, call_.name));
#include "runtime/cuda/api/nvrtc_functions.def"
  int count = 0;
  if (call_.nvrtcGetNumSupportedArchs(&count) != cuda::NVRTC_SUCCESS || count <= 0)
    return fail(StatusCode::Environment, "it lists no architectures");
  archs_.resize(static_cast<size_t>(count));
  if (call_.nvrtcGetSupportedArchs(archs_.data()) != cuda::NVRTC_SUCCESS)
    return fail(StatusCode::Environment, "it lists no architectures");
  std::sort(archs_.begin(), archs_.end());
  return load_builtins();
}

/// NVRTC opens a second file by its name alone when it first compiles, and finds whichever copy the loader finds. The
/// one that belongs to it lies beside it; once that is open, the name leads there.
Outcome Nvrtc::load_builtins() const {
  const std::string file = fmt::format("libnvrtc-builtins.so.{}", version());
  std::vector<fs::path> folders{opened_.folder()};
  std::error_code error;
  if (const fs::path real = fs::canonical(path(), error); !error && real.parent_path() != folders.front())
    folders.push_back(real.parent_path());
  std::string reason;
  for (const fs::path& folder : folders) {
    if (!fs::exists(folder / file, error)) continue;
    if (dlopen((folder / file).c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) return {};
    const char* said = dlerror();
    reason += fmt::format("; {}", said != nullptr ? said : "it cannot be opened");
  }
  std::vector<std::string> others;
  for (const fs::path& folder : folders)
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
      if (const std::string name = it->path().filename(); name.starts_with("libnvrtc-builtins.so.") && name != file)
        others.push_back(name);
  std::sort(others.begin(), others.end());
  if (!others.empty()) reason += fmt::format("; of other versions there is {}", fmt::join(others, ", "));
  std::vector<std::string> searched;
  for (const fs::path& folder : folders) searched.push_back(folder.string());
  return with_hint(
      fail(StatusCode::Environment, "NVRTC {} needs {} of the same version beside it (searched {}){}", version(), file,
           fmt::join(searched, ", "), reason),
      fmt::format("put {} into {}, or install NVRTC anew: both files come together", file, folders.front().string()));
}

Result<std::unique_ptr<const Nvrtc>> Nvrtc::open_in(const LibraryPlaces& places) {
  std::unique_ptr<Nvrtc> opened;
  const auto check = [&](const OpenedLibrary& library) {
    opened.reset(new Nvrtc(library));
    return opened->load();
  };
  STEPFUSE_TRY(open_cuda_library(library(), places, check).map([](const OpenedLibrary&) {}));
  return opened;
}

Result<const Nvrtc*> Nvrtc::open(const Settings& settings) {
  // By what the option says. Never destroyed: threads may still compile when the process ends.
  static std::mutex mutex;
  static auto& by_option = *new std::map<std::string, const Nvrtc*>;
  const LibraryPlaces places = LibraryPlaces::of(settings, library());
  const std::lock_guard lock(mutex);
  if (const auto known = by_option.find(places.option); known != by_option.end()) return known->second;
  STEPFUSE_ASSIGN(std::unique_ptr<const Nvrtc> opened, open_in(places));
  return by_option[places.option] = opened.release();
}

Outcome Nvrtc::check_arch(const CudaArch& arch) const {
  if (std::binary_search(archs_.begin(), archs_.end(), arch.number)) return {};
  return unknown_arch(arch);
}

tl::unexpected<Status> Nvrtc::unknown_arch(const CudaArch& arch) const {
  const CudaArch highest{archs_.back(), 0, false};
  std::string hint = fmt::format("it knows {}", fmt::join(archs_, ", "));
  if (std::binary_search(archs_.begin(), archs_.end(), arch.number))
    hint += fmt::format("; {} of them has no variant with suffix {}", arch.number, arch.suffix);
  else if (arch.number > highest.number)
    hint += fmt::format("; install a newer NVRTC, or use {}, whose PTX a driver compiles for newer devices",
                        highest.name());
  else if (arch.number < archs_.front())
    hint += "; an older NVRTC compiles for older devices";
  return with_hint(
      fail(StatusCode::Environment,
           "NVRTC {} ({}) does not compile for {} (a device of capability {}); the highest it knows is sm_{}",
           version(), path(), arch.name(), capability_text(arch.number), highest.number),
      std::move(hint));
}

tl::unexpected<Status> Nvrtc::failure(cuda::nvrtcResult status, const std::string& log, const std::string& name,
                                      const CudaArch& arch) const {
  // NVRTC does not say which option is bad; of a suffix that the number does not have, its front end complains.
  const bool about_arch =
      log.find("--gpu-architecture") != std::string::npos || log.find("nv_arch") != std::string::npos;
  if (about_arch) return unknown_arch(arch);
  if (status == cuda::NVRTC_ERROR_BUILTIN_OPERATION_FAILURE)
    return with_hint(
        fail(StatusCode::Environment, "NVRTC {} ({}) cannot use libnvrtc-builtins.so.{}: {}", version(), path(),
             version(), log),
        fmt::format("it must lie in {}; install NVRTC anew: both files come together", opened_.folder().string()));
  if (status == cuda::NVRTC_ERROR_OUT_OF_MEMORY)
    return fail(StatusCode::Environment, "NVRTC has not enough memory for {}", name);
  return fail(StatusCode::Internal, "NVRTC {} ({}) does not compile {} for {}: {}\n{}", version(), path(), name,
              arch.name(), call_.nvrtcGetErrorString(status), log);
}

Result<CudaBinary> Nvrtc::compile(const std::string& source, const std::string& name,
                                  const std::vector<std::string>& options, const CudaArch& arch) const {
  STEPFUSE_TRY(check_arch(arch));
  std::vector<std::string> all{"--gpu-architecture=" + arch.name()};
  if (arch.real) all.emplace_back("--ptxas-options=--verbose");
  all.insert(all.end(), options.begin(), options.end());
  Program program(call_);
  if (const cuda::nvrtcResult status = program.create(source, name + ".cu"); status != cuda::NVRTC_SUCCESS)
    return failure(status, {}, name, arch);
  const cuda::nvrtcResult status = program.compile(all);
  CudaBinary binary;
  binary.log = program.text(call_.nvrtcGetProgramLogSize, call_.nvrtcGetProgramLog);
  if (status != cuda::NVRTC_SUCCESS) return failure(status, binary.log, name, arch);
  binary.ptx = program.text(call_.nvrtcGetPTXSize, call_.nvrtcGetPTX);
  if (arch.real) {
    const std::string code = program.read(call_.nvrtcGetCUBINSize, call_.nvrtcGetCUBIN);
    const auto* bytes = reinterpret_cast<const std::byte*>(code.data());
    binary.cubin.assign(bytes, bytes + code.size());
    binary.usage = read_usage(binary.log);
  }
  if (binary.ptx.empty() || (arch.real && binary.cubin.empty()))
    return fail(StatusCode::Internal, "NVRTC {} ({}) compiled {} for {} to nothing", version(), path(), name,
                arch.name());
  return binary;
}

}  // namespace stepfuse::runtime
