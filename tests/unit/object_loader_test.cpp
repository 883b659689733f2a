// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/object_loader.h"

#include "codegen/lower.h"
#include "ir/optimizers/recipe.h"
#include "runtime/cpu/elf_object.h"
#include "tests/unit/compile_kernel.h"
#include "tests/unit/kernel_model.h"
#include "tests/unit/kernel_samples.h"
#include "tests/unit/plan_fixture.h"

#include <cstring>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <sys/mman.h>
#include <thread>

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepfuse::runtime {
namespace {

using codegen::KernelSpec;
using codegen::Scheme;
using ir::DType;
using ir::Op;
using testing::HasSubstr;
using namespace test;  // NOLINT: builders of specs

using Object = std::vector<std::byte>;

/// Has code, a pool of vector constants, one of scalars, and references to both.
const KernelSpec& sample() {
  static const KernelSpec spec = adamw_spec(ir::Mode::Strict);
  return spec;
}
const Object& sample_object() {
  static const Object object = compile(sample(), cpu_target_named("x86-64-v3")).object;
  return object;
}

/// Bytes that end where the next page may not be touched, so that reading past the end is seen at once.
class Guarded {
 public:
  explicit Guarded(size_t most) : room_((most + kPage - 1) / kPage * kPage) {
    memory_ = static_cast<std::byte*>(
        ::mmap(nullptr, room_ + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_EQ(::mprotect(memory_ + room_, kPage, PROT_NONE), 0);
  }
  ~Guarded() { ::munmap(memory_, room_ + kPage); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  std::span<std::byte> hold(std::span<const std::byte> bytes) {
    std::byte* start = memory_ + room_ - bytes.size();
    if (!bytes.empty()) std::memcpy(start, bytes.data(), bytes.size());
    return {start, bytes.size()};
  }

 private:
  static constexpr size_t kPage = 4096;
  size_t room_;
  std::byte* memory_;
};

struct Mapping {
  uintptr_t first, last;
  std::string rights, name;
};

std::vector<Mapping> mappings() {
  std::vector<Mapping> out;
  std::ifstream file("/proc/self/maps");
  for (std::string line; std::getline(file, line);) {
    Mapping mapping{};
    char dash = 0;
    std::string skipped;
    std::istringstream in(line);
    in >> std::hex >> mapping.first >> dash >> mapping.last >> mapping.rights >> skipped >> skipped >> skipped;
    std::getline(in >> std::ws, mapping.name);
    out.push_back(std::move(mapping));
  }
  return out;
}

std::string rights_at(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (const Mapping& mapping : mappings())
    if (mapping.first <= at && at < mapping.last) return mapping.rights;
  return "none";
}

const std::byte* code_of(const LoadedKernel& kernel) {
  return reinterpret_cast<const std::byte*>(reinterpret_cast<uintptr_t>(kernel.function()));
}

void expect_works(const LoadedKernel& kernel, const KernelSpec& spec) {
  Launch got = make_launch(spec, {1, 1, 5000}, 3);
  Launch want = got;
  run_kernel(kernel.function(), spec, got, 1);
  run_model(spec, want);
  EXPECT_EQ(difference(got, want), "");
}

TEST(ObjectLoader, CodeAndConstantsAreNeverWritable) {
  const auto kernel = load_object(sample_object(), sample().name);
  ASSERT_TRUE(kernel) << kernel.error().message;
  EXPECT_EQ(rights_at(code_of(**kernel)), "r-xp");
  // The constants are the last page of the kernel's memory.
  EXPECT_EQ(rights_at(code_of(**kernel) + (*kernel)->bytes() - 1), "r--p");
  // Libraries of the process may do otherwise; none of the kernel's pages is writable.
  const auto first = reinterpret_cast<uintptr_t>(code_of(**kernel));
  for (const Mapping& mapping : mappings())
    if (mapping.first < first + (*kernel)->bytes() && first < mapping.last) {
      EXPECT_EQ(mapping.rights.find('w'), std::string::npos) << mapping.name;
    }
  expect_works(**kernel, sample());
}

TEST(ObjectLoader, EachKernelGoesAlone) {
  const KernelSpec other = op_spec(Op::Sign, DType::BF16, Scheme::Linear, true, false);
  auto first = load_object(sample_object(), sample().name);
  const auto second = compile_and_load(other, cpu_target_named("x86-64-v3"));
  ASSERT_TRUE(first && second);
  const std::byte* code = code_of(**first);
  first->reset();
  EXPECT_NE(rights_at(code), "r-xp");
  expect_works(*second, other);
  EXPECT_EQ(rights_at(code_of(*second)), "r-xp");
}

TEST(ObjectLoader, LeavesNoMemoryBehind) {
  // Whatever the allocator and the test itself need is there after the first round.
  const auto round = [] {
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(load_object(sample_object(), sample().name));
    int executable = 0;
    for (const Mapping& mapping : mappings()) executable += mapping.rights.find('x') != std::string::npos ? 1 : 0;
    return executable;
  };
  const int before = round();
  EXPECT_EQ(round(), before);
}

TEST(ObjectLoader_Threads, CodeRunsOnAllOfThem) {
  const auto kernel = load_object(sample_object(), sample().name);
  ASSERT_TRUE(kernel);
  std::thread other([&] { expect_works(**kernel, sample()); });
  expect_works(**kernel, sample());
  other.join();
}

// ---- every kernel we make ----

std::vector<KernelSpec> kernels_of_all_recipes() {
  std::vector<KernelSpec> kernels;
  std::set<std::string> seen;
  for (const ir::Recipe& recipe : ir::all_recipes())
    for (const ir::Mode mode : {ir::Mode::Default, ir::Mode::Strict})
      for (const DType dtype : {DType::F32, DType::BF16})
        for (const auto& shape : {std::vector<int64_t>{64, 96}, {96, 64}}) {
          const auto rule = *recipe.build(*ir::parse_options(std::string(recipe.name), recipe.options(), {}),
                                          {shape, dtype, dtype, dtype});
          const auto plan =
              compiler::plan_of({compiler::PlannedParameter{"w", shape, rule, {}}}, compiler::plan_options(mode));
          for (KernelSpec& spec : codegen::distinct_kernels(plan))
            if (seen.insert(print(spec)).second) kernels.push_back(std::move(spec));
        }
  return kernels;
}

class EveryLevel : public testing::TestWithParam<const char*> {};

TEST_P(EveryLevel, LoadsTheKernelsOfAllRecipes) {
  const bool baseline = std::string_view(GetParam()) == "baseline";
  const CpuTarget target = baseline ? baseline_target() : cpu_target_named(GetParam());
  int loaded = 0;
  for (const KernelSpec& spec : kernels_of_all_recipes()) {
    const auto kernel = cpu_plugin().compile({&spec, target});
    if (!kernel) {
      EXPECT_TRUE(baseline) << kernel.error().message;
      EXPECT_EQ(kernel.error().code, StatusCode::Environment);
      continue;
    }
    const auto object = load_object(kernel->object, spec.name);
    EXPECT_TRUE(object) << object.error().message << "\n" << print(spec);
    ++loaded;
  }
  EXPECT_GT(loaded, 0);
}

INSTANTIATE_TEST_SUITE_P(All, EveryLevel, testing::Values("baseline", "x86-64-v3", "x86-64-v4", "cpu"),
                         [](const auto& level) { return "Level" + std::to_string(level.index); });

TEST(ObjectLoader, LoadsEveryOpOfTheLeastCpu) {
  for (const Op op : {Op::Add, Op::Div, Op::Sqrt, Op::Max, Op::Sign, Op::Select, Op::IsFinite, Op::Cast})
    for (const DType dtype : {DType::F64, DType::F32, DType::BF16}) {
      KernelSpec spec = op_spec(op, dtype, Scheme::Rows, false, true);
      spec.mode = ir::Mode::Default;
      const auto kernel = compile_and_load(spec, baseline_target());
      ASSERT_NE(kernel, nullptr);
    }
}

// ---- what is refused ----

/// The object's tables, to be changed in place.
struct Editor {
  Object bytes = sample_object();

  template <class T>
  T* at(uint64_t offset) {
    return reinterpret_cast<T*>(bytes.data() + offset);
  }
  Elf64_Ehdr& header() { return *at<Elf64_Ehdr>(0); }
  Elf64_Shdr& section(size_t index) { return at<Elf64_Shdr>(header().e_shoff)[index]; }
  /// The first section of this type with at least these flags.
  Elf64_Shdr& find(uint32_t type, uint64_t flags = 0) {
    for (size_t s = 1; s < header().e_shnum; ++s) {
      Elf64_Shdr& candidate = section(s);
      if (candidate.sh_type == type && (candidate.sh_flags & flags) == flags && candidate.sh_size > 0) return candidate;
    }
    throw std::runtime_error("no such section");
  }
  Elf64_Shdr& code() { return find(SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR); }
  Elf64_Shdr& constants() {
    for (size_t s = 1; s < header().e_shnum; ++s)
      if (section(s).sh_type == SHT_PROGBITS && (section(s).sh_flags & (SHF_ALLOC | SHF_EXECINSTR)) == SHF_ALLOC)
        return section(s);
    throw std::runtime_error("no constants");
  }
  Elf64_Rela& relocation() { return *at<Elf64_Rela>(find(SHT_RELA).sh_offset); }
  Elf64_Sym& symbol(unsigned bind) {
    const Elf64_Shdr& table = find(SHT_SYMTAB);
    for (size_t i = 1; i < table.sh_size / sizeof(Elf64_Sym); ++i) {
      auto& candidate = at<Elf64_Sym>(table.sh_offset)[i];
      if (ELF64_ST_BIND(candidate.st_info) == bind && ELF64_ST_TYPE(candidate.st_info) != STT_FILE) return candidate;
    }
    throw std::runtime_error("no such symbol");
  }
  void bind(unsigned symbol_bind, unsigned type) {
    Elf64_Sym& s = symbol(STB_GLOBAL);
    s.st_info = static_cast<unsigned char>(ELF64_ST_INFO(symbol_bind, type));
  }
};

struct Damage {
  const char* name;
  std::function<void(Editor&)> apply;
  const char* message;
};

const std::vector<Damage>& damages() {
  static const std::vector<Damage> all = {
      {"class", [](Editor& e) { e.header().e_ident[EI_CLASS] = ELFCLASS32; }, "no 64-bit little-endian ELF"},
      {"endianness", [](Editor& e) { e.header().e_ident[EI_DATA] = ELFDATA2MSB; }, "no 64-bit little-endian ELF"},
      {"machine", [](Editor& e) { e.header().e_machine = EM_AARCH64; }, "machine 183"},
      {"type", [](Editor& e) { e.header().e_type = ET_DYN; }, "type 3"},
      {"segments", [](Editor& e) { e.header().e_phnum = 1; }, "not that of a relocatable object"},
      {"table_offset_wraps", [](Editor& e) { e.header().e_shoff = ~uint64_t{0} - 63; }, "lies outside the file"},
      {"table_offset", [](Editor& e) { e.header().e_shoff += 64; }, "lies outside the file"},
      {"table_over_header", [](Editor& e) { e.header().e_shoff = 8, e.header().e_shnum = 2; }, "not a kernel object"},
      {"many_sections", [](Editor& e) { e.header().e_shnum = 0xfeff; }, "65279 sections"},
      {"no_sections", [](Editor& e) { e.header().e_shnum = 0; }, "0 sections"},
      {"offset_outside", [](Editor& e) { e.code().sh_offset = e.bytes.size(); }, "lies outside the file"},
      {"size_wraps", [](Editor& e) { e.code().sh_size = ~uint64_t{0} - 8; }, "lies outside the file"},
      {"overlap", [](Editor& e) { e.constants().sh_offset = e.code().sh_offset; }, "overlap"},
      {"overlap_header", [](Editor& e) { e.constants().sh_offset = 0; }, "overlap"},
      {"writable", [](Editor& e) { e.constants().sh_flags |= SHF_WRITE; }, "writable"},
      {"writable_code", [](Editor& e) { e.code().sh_flags |= SHF_WRITE; }, "writable"},
      {"thread_local", [](Editor& e) { e.constants().sh_flags |= SHF_TLS; }, "thread-local"},
      {"bss", [](Editor& e) { e.constants().sh_type = SHT_NOBITS; }, "needs zeroed memory"},
      {"init_array", [](Editor& e) { e.constants().sh_type = SHT_INIT_ARRAY; }, "has type 0xe"},
      {"rel", [](Editor& e) { e.find(SHT_RELA).sh_type = SHT_REL; }, "has type 0x9"},
      {"alignment", [](Editor& e) { e.code().sh_addralign = 8192; }, "alignment 8192"},
      {"odd_alignment", [](Editor& e) { e.code().sh_addralign = 24; }, "alignment 24"},
      {"relocation_type",
       [](Editor& e) { e.relocation().r_info = ELF64_R_INFO(ELF64_R_SYM(e.relocation().r_info), 1); },
       "a relocation of type 1"},
      {"relocation_null", [](Editor& e) { e.relocation().r_info = ELF64_R_INFO(uint64_t{0}, R_X86_64_PC32); },
       "against symbol 0"},
      {"relocation_symbol", [](Editor& e) { e.relocation().r_info = ELF64_R_INFO(uint64_t{9999}, R_X86_64_PC32); },
       "against symbol 9999"},
      {"relocation_absolute",
       [](Editor& e) { e.relocation().r_info = ELF64_R_INFO(uint64_t{1}, R_X86_64_PC32); },  // the file's name
       "not loaded"},
      {"relocation_place", [](Editor& e) { e.relocation().r_offset = e.code().sh_size - 3; }, "outside section"},
      {"relocation_place_wraps", [](Editor& e) { e.relocation().r_offset = ~uint64_t{0} - 1; }, "outside section"},
      {"relocation_target", [](Editor& e) { e.relocation().r_addend = 1 << 20; }, "points outside"},
      {"relocation_target_before", [](Editor& e) { e.relocation().r_addend = -9; }, "points outside"},
      {"relocation_addend_wraps", [](Editor& e) { e.relocation().r_addend = INT64_MAX; }, "points outside"},
      {"relocated_section", [](Editor& e) { e.find(SHT_RELA).sh_info = 999; }, "relocates section 999"},
      {"relocation_entries", [](Editor& e) { e.find(SHT_RELA).sh_entsize = 16; }, "not a table of relocations"},
      {"relocation_symbols", [](Editor& e) { e.find(SHT_RELA).sh_link = 0; }, "not a table of relocations"},
      {"undefined", [](Editor& e) { e.symbol(STB_GLOBAL).st_shndx = SHN_UNDEF; }, "from outside"},
      {"common", [](Editor& e) { e.symbol(STB_GLOBAL).st_shndx = SHN_COMMON; }, "lies in no section"},
      {"absolute", [](Editor& e) { e.symbol(STB_GLOBAL).st_shndx = SHN_ABS; }, "lies in no section"},
      {"ifunc", [](Editor& e) { e.bind(STB_GLOBAL, STT_GNU_IFUNC); }, "has type 10"},
      {"weak", [](Editor& e) { e.bind(STB_WEAK, STT_FUNC); }, "is wanted"},
      {"local", [](Editor& e) { e.bind(STB_LOCAL, STT_FUNC); }, "does not define"},
      {"data_symbol", [](Editor& e) { e.bind(STB_GLOBAL, STT_OBJECT); }, "is not a function"},
      {"not_executable", [](Editor& e) { e.code().sh_flags = SHF_ALLOC; }, "is not a function"},
      {"symbol_outside", [](Editor& e) { e.symbol(STB_GLOBAL).st_value = e.code().sh_size + 1; }, "passes the end"},
      {"symbol_size_wraps", [](Editor& e) { e.symbol(STB_GLOBAL).st_size = ~uint64_t{0}; }, "passes the end"},
      {"symbol_name", [](Editor& e) { e.symbol(STB_GLOBAL).st_name = 1 << 30; }, "outside the table"},
      {"symbol_strings", [](Editor& e) { e.find(SHT_SYMTAB).sh_link = 200; }, "names section 200"},
      {"symbol_entries", [](Editor& e) { e.find(SHT_SYMTAB).sh_entsize = 23; }, "entries of 23 bytes"},
      {"no_symbols", [](Editor& e) { e.find(SHT_SYMTAB).sh_type = SHT_NOTE; }, "no symbol table"},
      {"larger_than_allowed", [](Editor& e) { e.bytes.resize(kMaxObjectBytes + 1); }, "are more than"}};
  return all;
}

class EveryDamage : public testing::TestWithParam<Damage> {};

TEST_P(EveryDamage, IsRefusedByName) {
  Editor editor;
  GetParam().apply(editor);
  const auto kernel = load_object(editor.bytes, sample().name);
  ASSERT_FALSE(kernel);
  EXPECT_EQ(kernel.error().code, StatusCode::InvalidData);
  EXPECT_THAT(kernel.error().message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(All, EveryDamage, testing::ValuesIn(damages()),
                         [](const auto& damage) { return damage.param.name; });

TEST(ObjectLoader, NeedsTheSymbolAsked) {
  const auto kernel = load_object(sample_object(), "another_name");
  ASSERT_FALSE(kernel);
  EXPECT_THAT(kernel.error().message, HasSubstr("another_name"));
  EXPECT_FALSE(load_object({}, sample().name));
}

// ---- any damage at all: refused, or loaded and not run; never a read outside the object ----

TEST(ObjectLoader_AnyDamage, TruncatedAnywhere) {
  const Object& object = sample_object();
  Guarded guarded(object.size());
  // The section table is last, so nothing that is cut off can be missed.
  for (size_t length = 0; length < object.size(); ++length)
    EXPECT_FALSE(load_object(guarded.hold(std::span(object).first(length)), sample().name)) << length;
}

TEST(ObjectLoader_AnyDamage, FlippedAnywhere) {
  const Object& object = sample_object();
  Guarded guarded(object.size());
  const std::span<std::byte> bytes = guarded.hold(object);
  int refused = 0;
  for (size_t at = 0; at < bytes.size(); ++at)
    for (const unsigned mask : {0x01U, 0x40U, 0x80U, 0xffU}) {
      bytes[at] ^= std::byte(mask);
      refused += load_object(bytes, sample().name) ? 0 : 1;
      bytes[at] ^= std::byte(mask);
    }
  EXPECT_GT(refused, 1000);
  const auto whole = load_object(bytes, sample().name);
  ASSERT_TRUE(whole) << whole.error().message;
  expect_works(**whole, sample());
}

/// Two fields of the tables at once, each with a value that hurts arithmetic.
TEST(ObjectLoader_AnyDamage, ExtremeNumbersInTheTables) {
  Editor editor;
  const uint64_t table = editor.header().e_shoff;
  const size_t fields = editor.header().e_shnum * sizeof(Elf64_Shdr) / sizeof(uint64_t);
  const Object& object = sample_object();
  Guarded guarded(object.size());
  const std::span<std::byte> bytes = guarded.hold(object);
  constexpr std::array<uint64_t, 6> kExtremes{0, 1, uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{0} - 4095, 1ULL << 32};
  for (size_t first = 0; first < fields; ++first)
    for (size_t second = first; second < std::min(fields, first + 9); ++second)
      for (const uint64_t a : kExtremes)
        for (const uint64_t b : {uint64_t{0}, ~uint64_t{0} - 63}) {
          std::memcpy(bytes.data() + table + first * 8, &a, 8);
          std::memcpy(bytes.data() + table + second * 8, &b, 8);
          static_cast<void>(load_object(bytes, sample().name));
          std::memcpy(bytes.data() + table, object.data() + table, fields * 8);
        }
  EXPECT_TRUE(load_object(bytes, sample().name));
}

}  // namespace
}  // namespace stepfuse::runtime
