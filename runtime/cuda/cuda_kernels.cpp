// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/cuda_kernels.h"

#include "runtime/cache/metadata.h"
#include "runtime/cuda/cuda_overrides.h"

#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <ctime>
#include <sys/stat.h>

namespace stepfuse::runtime {

namespace {

/// A file as it can be told from a changed one without reading it.
struct FileStamp {
  int64_t bytes = 0;
  int64_t time = 0;  // of its last change, seconds since 1970
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

std::optional<FileStamp> stamp_of(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return FileStamp{info.st_size, info.st_mtim.tv_sec};
}

std::string metadata_of(const CudaKernelRequest& request, const Nvrtc& nvrtc, const CudaBinary& binary,
                        double milliseconds) {
  const FileStamp stamp = stamp_of(nvrtc.path()).value_or(FileStamp());
  nlohmann::ordered_json json = {{"name", request.name},
                                 {"symbol", request.name},
                                 {"library", library_build()},
                                 {"compiler", "NVRTC " + nvrtc.version()},
                                 {"cuda", nvrtc.version()},
                                 {"nvrtc_file", nvrtc.path()},
                                 {"nvrtc_bytes", stamp.bytes},
                                 {"nvrtc_time", stamp.time},
                                 {"created", static_cast<int64_t>(::time(nullptr))},
                                 {"cubin_bytes", binary.cubin.size()},
                                 {"compile_ms", std::round(milliseconds * 100) / 100}};
  if (binary.usage) {
    json["registers"] = binary.usage->registers;
    json["spill_bytes"] = binary.usage->spill_bytes;
    json["shared_bytes"] = binary.usage->shared_bytes;
  }
  // A path may hold any bytes.
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<std::byte> payload_of(const CudaBinary& binary) {
  std::vector<std::byte> payload = binary.cubin;
  const auto* ptx = reinterpret_cast<const std::byte*>(binary.ptx.data());
  payload.insert(payload.end(), ptx, ptx + binary.ptx.size());
  return payload;
}

class CudaKernelMaker final : public KernelMaker {
 public:
  CudaKernelMaker(const Context& context, CudaKernelRequest request)
      : context_(context), request_(std::move(request)) {}

  std::string_view name() const override { return request_.name; }
  KeyFields key_fields() const override { return cuda_kernel_fields(request_); }
  Result<std::shared_ptr<const Kernel>> edited(bool& made) const override {
    STEPFUSE_ASSIGN(std::shared_ptr<const CudaKernel> kernel, cuda_override_kernel(context_, request_, made));
    return std::shared_ptr<const Kernel>(std::move(kernel));
  }

  std::optional<std::string> made_otherwise(const std::string& metadata) const override {
    return cuda_compiled_otherwise(metadata);
  }

  Result<Compiled> compile() const override {
    const auto start = std::chrono::steady_clock::now();
    STEPFUSE_ASSIGN(const Nvrtc* nvrtc, Nvrtc::open(context_.settings()));
    STEPFUSE_ASSIGN(const std::string source, request_.source());
    STEPFUSE_ASSIGN(const CudaBinary binary, nvrtc->compile(source, request_.name, request_.options, request_.arch));
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    return Compiled{metadata_of(request_, *nvrtc, binary, took.count()), payload_of(binary)};
  }

  Result<std::shared_ptr<const Kernel>> load(const Entry& entry) const override { return load_cuda_kernel(entry); }

 private:
  const Context& context_;
  const CudaKernelRequest request_;
};

/// "13.0" as 13000, the way the driver counts; 0 where it is no version.
int version_number(std::string_view text) {
  int major = 0, minor = 0;
  const auto [dot, error] = std::from_chars(text.data(), text.data() + text.size(), major);
  const char* const end = text.data() + text.size();
  if (error != std::errc() || dot == end || *dot != '.') return 0;
  return std::from_chars(dot + 1, end, minor).ec == std::errc() ? major * 1000 + minor * 10 : 0;
}

/// What a driver says while it compiles PTX.
class JitLog {
 public:
  std::array<cuda::CUjit_option, 2>& options() { return options_; }
  std::array<void*, 2>& values() { return values_; }
  std::string text() const { return std::string(text_.data()); }

 private:
  std::array<char, 4096> text_{};
  std::array<cuda::CUjit_option, 2> options_{cuda::CU_JIT_ERROR_LOG_BUFFER, cuda::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::array<void*, 2> values_{text_.data(), reinterpret_cast<void*>(text_.size() - 1)};
};

}  // namespace

CudaKernelRequest fused_kernel_request(const codegen::KernelSpec& spec, const codegen::CudaVariant& variant,
                                       const CudaArch& arch) {
  return {codegen::cuda_kernel_name(spec),
          fmt::format("{}variant: {}\n", codegen::identity(spec), variant.aligned ? "aligned" : "generic"),
          codegen::nvrtc_options(spec.mode),
          arch,
          [spec, variant] { return codegen::emit_cuda(spec, variant); },
          variant.aligned ? "aligned" : "generic"};
}

CudaKernel::~CudaKernel() {
  if (library_ != nullptr && driver_->check_process()) driver_->call().cuLibraryUnload(library_);
}

Outcome check_driver_takes(const std::string& kernel, const std::string& compiled_with, const std::string& driver,
                           bool as_ptx) {
  const int needed = version_number(compiled_with), has = version_number(driver);
  if (needed == 0 || has == 0 || (as_ptx ? has >= needed : has / 1000 >= needed / 1000)) return {};
  const std::string least = as_ptx ? compiled_with : fmt::format("{}.0", needed / 1000);
  return with_hint(
      fail(StatusCode::Environment,
           "kernel {} was compiled by NVRTC {}, {} needs a driver of CUDA {} or newer; this driver is of CUDA {}",
           kernel, compiled_with, as_ptx ? "whose PTX" : "which", least, driver),
      "install a newer driver, or compile with an NVRTC no newer than the driver");
}

Outcome CudaKernel::load(const Driver& driver) const {
  const DriverFunctions& call = driver.call();
  STEPFUSE_TRY(check_driver_takes(name_, compiled_with_, driver.version(), cubin_.empty()));
  if (!cubin_.empty()) {
    const cuda::CUresult result =
        call.cuLibraryLoadData(&library_, cubin_.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    if (result == cuda::CUDA_SUCCESS) return {};
    if (result != cuda::CUDA_ERROR_NO_BINARY_FOR_GPU || ptx_.empty())
      return driver.check(result, fmt::format("loading kernel {}", name_));
  }
  STEPFUSE_TRY(check_driver_takes(name_, compiled_with_, driver.version(), true));
  JitLog log;
  const cuda::CUresult result = call.cuLibraryLoadData(&library_, ptx_.c_str(), log.options().data(),
                                                       log.values().data(), 2, nullptr, nullptr, 0);
  if (result == cuda::CUDA_SUCCESS) return {};
  Outcome failed = driver.check(result, fmt::format("compiling the PTX of kernel {}", name_));
  if (const std::string text = log.text(); !text.empty()) failed.error().message += ": " + text;
  if (result == cuda::CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
    failed.error().hint = fmt::format(
        "the driver is of CUDA {}: install a newer one, or compile with NVRTC of its version", driver.version());
  return failed;
}

Result<cuda::CUfunction> CudaKernel::function(const Driver& driver) const {
  const std::lock_guard lock(mutex_);
  const DriverFunctions& call = driver.call();
  if (library_ == nullptr) {
    STEPFUSE_TRY(load(driver));
    driver_ = &driver;
  }
  if (kernel_ == nullptr)
    STEPFUSE_TRY(driver.check(call.cuLibraryGetKernel(&kernel_, library_, name_.c_str()),
                              fmt::format("looking for kernel {} in its code", name_)));
  cuda::CUfunction function = nullptr;
  STEPFUSE_TRY(driver.check(call.cuKernelGetFunction(&function, kernel_), fmt::format("loading kernel {}", name_)));
  return function;
}

KeyFields cuda_kernel_fields(const CudaKernelRequest& request) {
  return {{"library", library_build()},
          {"arch", request.arch.name()},
          {"options", fmt::format("{}", fmt::join(request.options, " "))},
          {"kernel", request.identity}};
}

std::unique_ptr<KernelMaker> cuda_kernel_maker(const Context& context, CudaKernelRequest request) {
  return std::make_unique<CudaKernelMaker>(context, std::move(request));
}

Result<FoundCudaKernel> find_cuda_kernel(KernelCache& cache, const Context& context, const CudaKernelRequest& request) {
  STEPFUSE_ASSIGN(const FoundKernel found, cache.find_or_compile(context, CudaKernelMaker(context, request)));
  return FoundCudaKernel{std::static_pointer_cast<const CudaKernel>(found.kernel), found.origin};
}

std::optional<std::string> cuda_compiled_otherwise(const std::string& metadata) {
  const Metadata by(metadata);
  const auto now = stamp_of(by.text("nvrtc_file"));
  if (!now || *now == FileStamp{by.number("nvrtc_bytes"), by.number("nvrtc_time")}) return std::nullopt;
  return fmt::format("{} compiled it, and {} has changed since", by.text("compiler"), by.text("nvrtc_file"));
}

Result<std::shared_ptr<const CudaKernel>> load_cuda_kernel(const Entry& entry) {
  const Metadata metadata(entry.metadata);
  const std::string symbol = metadata.text("symbol");
  const int64_t cubin_bytes = metadata.number("cubin_bytes");
  const auto payload_bytes = static_cast<int64_t>(entry.payload.size());
  if (symbol.empty()) return fail(StatusCode::InvalidData, "its metadata names no symbol");
  if (cubin_bytes < 0 || cubin_bytes > payload_bytes)
    return fail(StatusCode::InvalidData, "it claims {} bytes of machine code and has {}", cubin_bytes, payload_bytes);
  const auto middle = entry.payload.begin() + cubin_bytes;
  std::string ptx(reinterpret_cast<const char*>(entry.payload.data()) + cubin_bytes,
                  static_cast<size_t>(payload_bytes - cubin_bytes));
  if (ptx.find('\0') != std::string::npos) return fail(StatusCode::InvalidData, "its PTX is no text");
  return std::make_shared<const CudaKernel>(symbol, std::vector<std::byte>(entry.payload.begin(), middle),
                                            std::move(ptx), metadata.text("cuda"));
}

}  // namespace stepfuse::runtime
