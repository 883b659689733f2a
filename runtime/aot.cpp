// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/aot.h"

#include "runtime/cache/inspect.h"
#include "runtime/parallel.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <set>

namespace stepfuse::runtime {

namespace {

/// One kernel to compile.
struct Job {
  const KernelMaker* maker = nullptr;
  Key key;
  Entry entry;  // what came of it
};

/// Distinct keys, in order of first use.
std::vector<Job> jobs_of(std::span<const TargetNeeds> needs) {
  std::vector<Job> jobs;
  std::set<std::string> seen;
  for (const TargetNeeds& target : needs)
    for (const auto& maker : target.kernels) {
      Key key = Key::of(EntryKind::Kernel, maker->key_fields());
      if (seen.insert(key.preimage).second) jobs.push_back({maker.get(), std::move(key), {}});
    }
  return jobs;
}

Result<Entry> compile(const Job& job) {
  try {
    STEPFUSE_ASSIGN(KernelMaker::Compiled compiled, job.maker->compile());
    Entry entry = without_provenance(
        {EntryKind::Kernel, job.key.preimage, std::move(compiled.metadata), std::move(compiled.payload)});
    if (const std::string problem = problem_with(entry); !problem.empty())
      return fail(StatusCode::Internal, "kernel {} was compiled but {}", job.maker->name(), problem);
    return entry;
  } catch (const std::bad_alloc&) {
    return fail(StatusCode::Environment, "compiling {}: not enough memory", job.maker->name());
  } catch (const std::exception& error) {
    // Nothing may leave a thread.
    return fail(StatusCode::Internal, "compiling {}: {}", job.maker->name(), error.what());
  }
}

std::string shape_name(const PlanShape& shape) {
  return fmt::format("{} {} ({})", shape.rule, shape_text(shape.shape.shape), shape.parameter);
}

/// Says what a bundle has in the place of an entry.
class Search {
 public:
  explicit Search(const Bundle& bundle) : bundle_(bundle) {}

  /// Empty when the entry is there and can be used.
  std::string problem(const Key& key, const KeyFields& fields) {
    const EntryRead read = bundle_.read(key.kind, key.hash);
    if (read.outcome == EntryRead::Outcome::Damaged) return "its entry is damaged: " + read.why;
    if (read.entry && (read.entry->kind != key.kind || read.entry->preimage != key.preimage))
      return "another key has the same hash";
    return read.entry ? problem_with(*read.entry) : absent(key.kind, fields);
  }

 private:
  std::string absent(EntryKind kind, const KeyFields& fields) {
    if (!listed_) listed_ = list_entries(bundle_);
    const auto near = nearest_entry(*listed_, kind, fields);
    if (!near || near->differences.empty()) return "no entry has its key";
    return fmt::format("no entry has its key; the nearest, {}, differs in {}", near->entry.hash.substr(0, 12),
                       near->differences.front().text());
  }

  const Bundle& bundle_;
  std::optional<std::vector<ListedEntry>> listed_;
};

}  // namespace

Result<TargetNeeds> needs_of(const compiler::StepPlan& plan, const std::vector<compiler::PlannedParameter>& parameters,
                             const Context& context) {
  TargetNeeds needs{plan.target.name, {}, {}};
  STEPFUSE_ASSIGN(needs.kernels, plan_kernels(plan, context));
  STEPFUSE_ASSIGN(needs.shapes, plan_shapes(plan, parameters, context));
  return needs;
}

Result<std::vector<Entry>> compile_needs(std::span<const TargetNeeds> needs, int64_t jobs,
                                         const AotProgress& progress) {
  std::vector<Job> work = jobs_of(needs);
  const auto count = static_cast<int64_t>(work.size());
  std::mutex mutex;
  int64_t done = 0;
  const auto compile_one = [&](int64_t index) -> Outcome {
    Job& job = work[static_cast<size_t>(index)];
    STEPFUSE_ASSIGN(job.entry, compile(job));
    const std::scoped_lock lock(mutex);
    if (progress) progress(++done, count, job.maker->name());
    return {};
  };
  STEPFUSE_TRY(parallel_for(count, jobs, compile_one));
  std::vector<Entry> entries;
  std::set<std::string> shapes;
  entries.reserve(work.size());
  for (Job& job : work) entries.push_back(std::move(job.entry));
  for (const TargetNeeds& target : needs)
    for (const PlanShape& shape : target.shapes)
      if (shapes.insert(shape.key.preimage).second) entries.push_back(without_provenance(shape.entry));
  return entries;
}

std::vector<MissingEntry> missing_from(const Bundle& bundle, std::span<const TargetNeeds> needs) {
  std::vector<MissingEntry> missing;
  Search search(bundle);
  for (const TargetNeeds& target : needs) {
    const auto check = [&](const Key& key, const KeyFields& fields, std::string name) {
      std::string why = search.problem(key, fields);
      if (!why.empty()) missing.push_back({target.target, key.kind, std::move(name), key.hash.hex(), std::move(why)});
    };
    for (const PlanShape& shape : target.shapes) check(shape.key, shape.fields, shape_name(shape));
    for (const auto& kernel : target.kernels) {
      const KeyFields fields = kernel->key_fields();
      check(Key::of(EntryKind::Kernel, fields), fields, kernel_label(*kernel));
    }
  }
  return missing;
}

}  // namespace stepfuse::runtime
