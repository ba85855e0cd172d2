#include "wrappers/batching/mix_batch.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "energon/sample/sample.h"
#include "io/error.h"

namespace energon {
namespace {

// Sorts `samples` by leaf and returns the leaf of each.
std::vector<std::int64_t> sort_by_leaf(std::span<Sample> samples) {
  std::vector<std::pair<std::int64_t, std::size_t>> order;
  order.reserve(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    order.emplace_back(leaf_of(samples[i].restore_key), i);
  }
  std::ranges::sort(order);
  std::vector<std::int64_t> leaves;
  std::vector<Sample> sorted;
  leaves.reserve(samples.size());
  sorted.reserve(samples.size());
  for (const auto& [leaf, position] : order) {
    leaves.push_back(leaf);
    sorted.push_back(std::move(samples[position]));
  }
  std::ranges::move(sorted, samples.begin());
  return leaves;
}

template <class Fields>
auto find_field(Fields& fields, const std::string& name) {
  return std::ranges::find(fields, name, &Mapping::value_type::first);
}

// Throws Error (kInvalidArgument) unless `other` has the fields of `batch`.
void check_fields(const LeafBatch& batch, const LeafBatch& other) {
  for (const auto& [name, value] : batch.fields) {
    if (find_field(other.fields, name) == other.fields.end()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("field '{}' is in the batch of leaf {}, but not in that of leaf {}; "
                              "give the mix a function that knows what to do",
                              printable(name), batch.leaf, other.leaf));
    }
  }
}

}  // namespace

Mapping concat_batches(std::span<LeafBatch> batches, CallContext& context) {
  Mapping fields;
  if (batches.empty()) {
    return fields;
  }
  std::vector<std::string> names;
  for (const LeafBatch& batch : batches) {
    names.push_back(fmt::format("leaf {}", batch.leaf));
    check_field_names(batch.fields, "the batch of " + names.back());
    check_fields(batches[0], batch);
    check_fields(batch, batches[0]);
  }
  const std::vector<std::string_view> owners(names.begin(), names.end());
  for (auto& [name, first] : batches[0].fields) {
    List values;
    values.push_back(std::move(first));
    for (LeafBatch& batch : batches.subspan(1)) {
      values.push_back(std::move(find_field(batch.fields, name)->second));
    }
    fields.emplace_back(name, concat_values(name, std::move(values), owners, context.memory()));
  }
  return fields;
}

BatchFunction mix_batch(MixOptions options) {
  if (!options.function || !options.mix ||
      std::ranges::any_of(options.leaf_functions, [](const auto& leaf) { return !leaf.second; })) {
    throw Error(ErrorCode::kInvalidArgument, "a mixed batch lacks one of its functions");
  }
  return [options = std::move(options)](std::span<Sample> samples, CallContext& context) {
    const std::vector<std::int64_t> leaves = sort_by_leaf(samples);
    std::vector<LeafBatch> batches;
    for (std::size_t begin = 0; begin < samples.size();) {
      const std::int64_t leaf = leaves[begin];
      const auto end = static_cast<std::size_t>(
          std::upper_bound(leaves.begin() + static_cast<std::ptrdiff_t>(begin), leaves.end(),
                           leaf) -
          leaves.begin());
      const auto own = options.leaf_functions.find(leaf);
      const BatchFunction& function =
          own == options.leaf_functions.end() ? options.function : own->second;
      batches.push_back(
          {leaf, function(samples.subspan(begin, end - begin), context), end - begin});
      begin = end;
    }
    return options.mix(batches, context);
  };
}

}  // namespace energon
