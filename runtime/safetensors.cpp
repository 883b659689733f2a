// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/safetensors.h"

#include "runtime/pending_file.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tuple>
#include <utility>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace stepfuse::runtime {

namespace {

using nlohmann::json;

constexpr uint64_t kLengthBytes = 8, kMaxHeaderBytes = 100'000'000;

constexpr std::array<std::pair<std::string_view, uint64_t>, 16> kDtypeBytes = {{{"BOOL", 1},
                                                                                {"U8", 1},
                                                                                {"I8", 1},
                                                                                {"F8_E4M3", 1},
                                                                                {"F8_E5M2", 1},
                                                                                {"F8_E8M0", 1},
                                                                                {"U16", 2},
                                                                                {"I16", 2},
                                                                                {"F16", 2},
                                                                                {"BF16", 2},
                                                                                {"U32", 4},
                                                                                {"I32", 4},
                                                                                {"F32", 4},
                                                                                {"U64", 8},
                                                                                {"I64", 8},
                                                                                {"F64", 8}}};

std::optional<uint64_t> dtype_bytes(std::string_view name) {
  for (const auto& [known, bytes] : kDtypeBytes)
    if (known == name) return bytes;
  return std::nullopt;
}

std::string known_dtypes() {
  std::string list;
  for (const auto& [name, bytes] : kDtypeBytes) list += fmt::format("{}{}", list.empty() ? "" : ", ", name);
  return list;
}

/// Bytes of a tensor, or nothing where they do not fit into 63 bits.
std::optional<uint64_t> tensor_bytes(const std::vector<int64_t>& shape, uint64_t element_bytes) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t total = static_cast<int64_t>(element_bytes);
  for (const int64_t extent : shape)
    if (__builtin_mul_overflow(total, extent, &total)) return std::nullopt;
  return static_cast<uint64_t>(total);
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

tl::unexpected<Status> system_error(StatusCode code, std::string_view action, const std::string& path) {
  const int error = errno;
  return fail(code, "cannot {} '{}': {}", action, path, std::strerror(error));
}

/// The header's JSON. nlohmann keeps the last of two equal keys, so they are caught while parsing.
Result<json> parse_header(const std::string& path, std::string_view text) {
  std::vector<std::set<std::string>> keys;
  std::string duplicate;
  const auto watch = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      duplicate = parsed.get<std::string>();
    return true;
  };
  try {
    json header = json::parse(text, watch);
    if (!duplicate.empty()) return fail(StatusCode::InvalidData, "'{}': the header names '{}' twice", path, duplicate);
    if (header.is_object()) return header;
    return fail(StatusCode::InvalidData, "'{}': the header is not a JSON object", path);
  } catch (const json::exception& error) {
    return fail(StatusCode::InvalidData, "'{}': the header is not valid JSON: {:.200}", path, error.what());
  }
}

template <class... Args>
tl::unexpected<Status> bad_tensor(const std::string& path, const std::string& name, fmt::format_string<Args...> format,
                                  Args&&... args) {
  return fail(StatusCode::InvalidData, "'{}': tensor '{}': {}", path, name,
              fmt::format(format, std::forward<Args>(args)...));
}

/// A JSON integer from 0 to 2^63 - 1.
std::optional<int64_t> extent_of(const json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<uint64_t>() > std::numeric_limits<int64_t>::max()) return std::nullopt;
  const auto number = value.get<int64_t>();
  return number >= 0 ? std::optional(number) : std::nullopt;
}

Result<std::vector<int64_t>> extents_of(const std::string& path, const std::string& name, const json& fields,
                                        const char* key) {
  if (!fields.contains(key) || !fields[key].is_array()) return bad_tensor(path, name, "it has no list '{}'", key);
  std::vector<int64_t> numbers;
  for (const json& value : fields[key]) {
    const std::optional<int64_t> number = extent_of(value);
    if (!number)
      return bad_tensor(path, name, "'{}' holds {}, not a number from 0 to 2^63 - 1", key,
                        value.is_number() ? value.dump() : value.type_name());
    numbers.push_back(*number);
  }
  return numbers;
}

Result<TensorEntry> parse_entry(const std::string& path, const std::string& name, const json& fields) {
  if (!fields.is_object()) return bad_tensor(path, name, "its entry is not a JSON object");
  if (!fields.contains("dtype") || !fields["dtype"].is_string()) return bad_tensor(path, name, "it has no 'dtype'");
  TensorEntry entry;
  entry.name = name;
  entry.dtype = fields["dtype"].get<std::string>();
  const std::optional<uint64_t> element_bytes = dtype_bytes(entry.dtype);
  if (!element_bytes)
    return with_hint(bad_tensor(path, name, "unknown dtype '{}'", entry.dtype), "known are " + known_dtypes());
  STEPFUSE_ASSIGN(entry.shape, extents_of(path, name, fields, "shape"));
  STEPFUSE_ASSIGN(const std::vector<int64_t> offsets, extents_of(path, name, fields, "data_offsets"));
  if (offsets.size() != 2 || offsets[0] > offsets[1])
    return bad_tensor(path, name, "'data_offsets' is not a begin and an end");
  entry.offset = static_cast<uint64_t>(offsets[0]);
  entry.bytes = static_cast<uint64_t>(offsets[1] - offsets[0]);
  const std::optional<uint64_t> expected = tensor_bytes(entry.shape, *element_bytes);
  if (!expected) return bad_tensor(path, name, "shape [{}] has more than 2^63 bytes", fmt::join(entry.shape, ", "));
  if (*expected != entry.bytes)
    return bad_tensor(path, name, "shape [{}] of {} takes {} bytes, its offsets {} to {} leave {}",
                      fmt::join(entry.shape, ", "), entry.dtype, *expected, offsets[0], offsets[1], entry.bytes);
  return entry;
}

/// Sorted by offset, the tensors must tile the data section.
Outcome check_tiling(const std::string& path, const std::vector<TensorEntry>& tensors, uint64_t data_bytes) {
  uint64_t end = 0;
  for (const TensorEntry& entry : tensors) {
    if (entry.offset < end)
      return bad_tensor(path, entry.name, "it overlaps the tensor before it at byte {}", entry.offset);
    if (entry.offset > end)
      return bad_tensor(path, entry.name, "a hole of {} bytes lies before it", entry.offset - end);
    if (entry.bytes > data_bytes - end)
      return with_hint(bad_tensor(path, entry.name, "it ends at byte {} of the data, of which the file has {}",
                                  entry.offset + entry.bytes, data_bytes),
                       "the file is truncated: copy or download it again");
    end += entry.bytes;
  }
  if (end == data_bytes) return {};
  return fail(StatusCode::InvalidData, "'{}': {} bytes after the last tensor belong to none", path, data_bytes - end);
}

Result<std::map<std::string, std::string>> parse_metadata(const std::string& path, const json& fields) {
  std::map<std::string, std::string> metadata;
  if (!fields.is_object()) return fail(StatusCode::InvalidData, "'{}': '__metadata__' is not a JSON object", path);
  for (const auto& [key, value] : fields.items()) {
    if (!value.is_string()) return fail(StatusCode::InvalidData, "'{}': metadata '{}' is not a string", path, key);
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

Result<std::string> read_bytes(int fd, const std::string& path, uint64_t offset, uint64_t bytes) {
  std::string text(bytes, '\0');
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t got = ::pread(fd, text.data() + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(StatusCode::Io, "read", path);
    if (got == 0) return fail(StatusCode::Io, "'{}' became shorter while it was read", path);
    done += static_cast<uint64_t>(got);
  }
  return text;
}

constexpr const char* kNoSafetensors = "the file is truncated or no safetensors file";

Outcome check_room(const std::string& path, uint64_t file_bytes) {
  if (file_bytes >= kLengthBytes) return {};
  return with_hint(fail(StatusCode::InvalidData, "'{}' has {} bytes, too few for a header", path, file_bytes),
                   kNoSafetensors);
}

/// The length field, checked against the file.
Result<uint64_t> header_length(const std::string& path, std::string_view field, uint64_t file_bytes) {
  uint64_t length = 0;  // little-endian
  for (size_t i = kLengthBytes; i-- > 0;) length = length << 8 | static_cast<unsigned char>(field[i]);
  if (length > kMaxHeaderBytes)
    return with_hint(fail(StatusCode::InvalidData, "'{}' claims a header of {} bytes; the limit is {}", path, length,
                          kMaxHeaderBytes),
                     kNoSafetensors);
  if (length <= file_bytes - kLengthBytes) return length;
  return with_hint(fail(StatusCode::InvalidData, "'{}' claims a header of {} bytes, but only {} follow", path, length,
                        file_bytes - kLengthBytes),
                   kNoSafetensors);
}

}  // namespace

struct SafetensorsFile::Impl {
  std::string path;
  std::vector<TensorEntry> tensors;
  std::map<std::string, size_t> by_name;
  std::map<std::string, std::string> metadata;
  uint64_t header_bytes = 0;            // with the length field: where the data begins
  const std::byte* contents = nullptr;  // the whole file
  uint64_t mapped_bytes = 0;            // 0: the contents are the caller's

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    if (mapped_bytes != 0) ::munmap(const_cast<std::byte*>(contents), mapped_bytes);
  }

  Outcome take_header(const json& header, uint64_t data_bytes) {
    for (const auto& [name, fields] : header.items()) {
      if (name == "__metadata__") {
        STEPFUSE_ASSIGN(metadata, parse_metadata(path, fields));
        continue;
      }
      STEPFUSE_ASSIGN(TensorEntry entry, parse_entry(path, name, fields));
      tensors.push_back(std::move(entry));
    }
    std::sort(tensors.begin(), tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
      return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);  // empty ones first
    });
    for (size_t i = 0; i < tensors.size(); ++i) by_name[tensors[i].name] = i;
    return check_tiling(path, tensors, data_bytes);
  }

  Outcome load(const std::string& file, bool map_data) {
    path = file;
    const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe must not block us
    if (fd.get() < 0) return system_error(errno == ENOENT ? StatusCode::NotFound : StatusCode::Io, "open", path);
    struct stat info{};
    if (::fstat(fd.get(), &info) != 0) return system_error(StatusCode::Io, "inspect", path);
    if (!S_ISREG(info.st_mode)) return fail(StatusCode::InvalidData, "'{}' is not a regular file", path);
    const auto file_bytes = static_cast<uint64_t>(info.st_size);
    STEPFUSE_TRY(check_room(path, file_bytes));
    STEPFUSE_ASSIGN(const std::string field, read_bytes(fd.get(), path, 0, kLengthBytes));
    STEPFUSE_ASSIGN(const uint64_t length, header_length(path, field, file_bytes));
    STEPFUSE_ASSIGN(const std::string text, read_bytes(fd.get(), path, kLengthBytes, length));
    STEPFUSE_TRY(parse(text, file_bytes));
    if (!map_data) return {};
    void* memory = ::mmap(nullptr, file_bytes, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (memory == MAP_FAILED) return system_error(StatusCode::Io, "map", path);
    contents = static_cast<const std::byte*>(memory);
    mapped_bytes = file_bytes;
    return {};
  }

  Outcome look_at(std::span<const std::byte> bytes, const std::string& name) {
    path = name;
    STEPFUSE_TRY(check_room(path, bytes.size()));
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    STEPFUSE_ASSIGN(const uint64_t length, header_length(path, text, bytes.size()));
    STEPFUSE_TRY(parse(text.substr(kLengthBytes, length), bytes.size()));
    contents = bytes.data();
    return {};
  }

  Outcome parse(std::string_view text, uint64_t file_bytes) {
    STEPFUSE_ASSIGN(const json header, parse_header(path, text));
    header_bytes = kLengthBytes + text.size();
    return take_header(header, file_bytes - header_bytes);
  }
};

SafetensorsFile::SafetensorsFile() : impl_(std::make_unique<Impl>()) {}
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;
SafetensorsFile::~SafetensorsFile() = default;

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  SafetensorsFile file;
  STEPFUSE_TRY(file.impl_->load(path, true));
  return file;
}

Result<SafetensorsFile> SafetensorsFile::open_header(const std::string& path) {
  SafetensorsFile file;
  STEPFUSE_TRY(file.impl_->load(path, false));
  return file;
}

Result<SafetensorsFile> SafetensorsFile::from_memory(std::span<const std::byte> bytes, const std::string& name) {
  SafetensorsFile file;
  STEPFUSE_TRY(file.impl_->look_at(bytes, name));
  return file;
}

const std::vector<TensorEntry>& SafetensorsFile::tensors() const { return impl_->tensors; }

const TensorEntry* SafetensorsFile::find(const std::string& name) const {
  const auto found = impl_->by_name.find(name);
  return found == impl_->by_name.end() ? nullptr : &impl_->tensors[found->second];
}

const std::byte* SafetensorsFile::data(const TensorEntry& entry) const {
  STEPFUSE_CHECK(impl_->contents != nullptr, "the data of '{}' is not mapped", impl_->path);
  return impl_->contents + impl_->header_bytes + entry.offset;
}

const std::map<std::string, std::string>& SafetensorsFile::metadata() const { return impl_->metadata; }
const std::string& SafetensorsFile::path() const { return impl_->path; }

namespace {

/// Wide elements first, so that every tensor is aligned to its own element.
Result<std::vector<std::pair<const TensorToWrite*, uint64_t>>> layout(const std::string& path,
                                                                      const std::vector<TensorToWrite>& tensors) {
  std::vector<std::pair<const TensorToWrite*, uint64_t>> order;
  std::set<std::string_view> names;
  for (const TensorToWrite& tensor : tensors) {
    const std::optional<uint64_t> element_bytes = dtype_bytes(tensor.dtype);
    if (!element_bytes) return bad_tensor(path, tensor.name, "unknown dtype '{}'", tensor.dtype);
    const bool negative = std::any_of(tensor.shape.begin(), tensor.shape.end(), [](int64_t e) { return e < 0; });
    const std::optional<uint64_t> bytes = tensor_bytes(tensor.shape, *element_bytes);
    if (negative || !bytes) return bad_tensor(path, tensor.name, "no shape: [{}]", fmt::join(tensor.shape, ", "));
    if (tensor.name == "__metadata__") return bad_tensor(path, tensor.name, "this name is the format's own");
    if (!names.insert(tensor.name).second) return bad_tensor(path, tensor.name, "it would be written twice");
    order.emplace_back(&tensor, *bytes);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return *dtype_bytes(a.first->dtype) > *dtype_bytes(b.first->dtype);
  });
  return order;
}

/// Length field and header, padded so that the data begins at a multiple of 64 bytes.
Result<std::string> make_header(const std::string& path,
                                const std::vector<std::pair<const TensorToWrite*, uint64_t>>& order,
                                const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const auto& [tensor, bytes] : order) {
    header[tensor->name] = {
        {"dtype", tensor->dtype}, {"shape", tensor->shape}, {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception&) {
    return fail(StatusCode::InvalidArgument, "'{}': a name or metadata entry is not UTF-8", path);
  }
  text.append((64 - (text.size() + kLengthBytes) % 64) % 64, ' ');
  if (text.size() > kMaxHeaderBytes)
    return fail(StatusCode::InvalidArgument, "'{}': a header of {} bytes is above the format's limit of {}", path,
                text.size(), kMaxHeaderBytes);
  std::string length;
  for (size_t i = 0; i < kLengthBytes; ++i) length.push_back(static_cast<char>(text.size() >> (8 * i) & 0xff));
  return length + text;
}

}  // namespace

std::string_view safetensors_name(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::F64:
      return "F64";
    case ir::DType::F32:
      return "F32";
    case ir::DType::F16:
      return "F16";
    case ir::DType::BF16:
      return "BF16";
    case ir::DType::Bool:
      return "BOOL";
  }
  return {};
}

Result<std::vector<std::byte>> serialise_safetensors(const std::vector<TensorToWrite>& tensors,
                                                     const std::map<std::string, std::string>& metadata,
                                                     const std::string& name) {
  STEPFUSE_ASSIGN(const auto order, layout(name, tensors));
  STEPFUSE_ASSIGN(const std::string header, make_header(name, order, metadata));
  size_t total = header.size();
  for (const auto& [tensor, bytes] : order) total += bytes;
  std::vector<std::byte> result;
  result.reserve(total);
  const auto append = [&](const void* data, uint64_t bytes) {
    const auto* from = static_cast<const std::byte*>(data);
    result.insert(result.end(), from, from + bytes);
  };
  append(header.data(), header.size());
  for (const auto& [tensor, bytes] : order) append(tensor->data, bytes);
  return result;
}

Outcome write_safetensors(const std::string& path, const std::vector<TensorToWrite>& tensors,
                          const std::map<std::string, std::string>& metadata) {
  STEPFUSE_ASSIGN(const auto order, layout(path, tensors));
  STEPFUSE_ASSIGN(const std::string header, make_header(path, order, metadata));
  PendingFile pending(path);
  STEPFUSE_TRY(pending.create(0666));
  STEPFUSE_TRY(pending.write(header));
  for (const auto& [tensor, bytes] : order) STEPFUSE_TRY(pending.write(tensor->data, bytes));
  return pending.publish(true);
}

}  // namespace stepfuse::runtime
