#include "wrappers/stages/typed_samples.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "energon/sample/restore_key.h"
#include "io/error.h"

namespace energon {
namespace {

std::string names_of(const Mapping& members) {
  constexpr std::size_t kShown = 10;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < members.size() && i < kShown; ++i) {
    names.push_back(printable(members[i].first));
  }
  const std::string more = members.size() > kShown ? ", …" : "";
  return members.empty() ? "nothing" : fmt::format("{}{}", fmt::join(names, ", "), more);
}

const Value* member_of(const Mapping& members, std::string_view name) {
  const auto found = std::find_if(members.begin(), members.end(),
                                  [&](const auto& member) { return member.first == name; });
  return found == members.end() ? nullptr : &found->second;
}

const Value* item_of(const List& items, std::optional<std::int64_t> index) {
  const auto count = static_cast<std::int64_t>(items.size());
  if (!index || *index >= count || *index < -count) {
    return nullptr;
  }
  return &items[static_cast<std::size_t>(*index < 0 ? *index + count : *index)];
}

// The value that one step leads to; null if there is none, with the reason in `problem`.
const Value* take_step(const Value& value, const FieldStep& step, std::string& problem) {
  if (const auto* const members = std::get_if<Mapping>(&value.base())) {
    const Value* const member = member_of(*members, step.name);
    if (member == nullptr) {
      problem = fmt::format("no '{}' among {}", printable(step.name), names_of(*members));
    }
    return member;
  }
  if (const auto* const items = std::get_if<List>(&value.base())) {
    const Value* const item = item_of(*items, step.index);
    if (item == nullptr) {
      problem = fmt::format("no [{}] in a list of {}", printable(step.name), items->size());
    }
    return item;
  }
  problem = fmt::format("[{}] of {}", printable(step.name), describe(value));
  return nullptr;
}

// The decoded parts of one sample.
class DecodedParts {
 public:
  DecodedParts(const Sample& sample, const SampleDecoder& decoder, BufferAllocator& memory,
               CallRng* rng)
      : sample_(sample), decoder_(decoder), memory_(memory), rng_(rng) {}

  // Null if there is no value, with the reason in `problem`.
  const Value* find(const FieldPath& path, std::string& problem) {
    const Value* value = part(path.part);
    if (value == nullptr) {
      problem = "no such part";
      return nullptr;
    }
    for (const FieldStep& step : path.steps) {
      value = take_step(*value, step, problem);
      if (value == nullptr) {
        return nullptr;
      }
    }
    return value;
  }

 private:
  const Value* part(const std::string& name) {
    if (const Value* const decoded = member_of(decoded_, name)) {
      return decoded;
    }
    const Value* const found = sample_.find(name);
    if (found == nullptr) {
      return nullptr;
    }
    const auto* const bytes = std::get_if<SharedBytes>(&found->base());
    decoded_.emplace_back(
        name, bytes != nullptr ? decoder_.decode_part(name, *bytes, memory_, rng_) : *found);
    return &decoded_.back().second;
  }

  const Sample& sample_;
  const SampleDecoder& decoder_;
  BufferAllocator& memory_;
  CallRng* const rng_;
  Mapping decoded_;
};

// The value of a field; nullopt if it is optional and missing.
std::optional<Value> value_of(const SampleField& field, const FieldExpression& expression,
                              DecodedParts& parts, const Sample& sample) {
  std::string tried;
  for (const FieldPath& path : expression.alternatives) {
    std::string problem;
    if (const Value* const value = parts.find(path, problem)) {
      return *value;
    }
    tried +=
        fmt::format("{}'{}' ({})", tried.empty() ? "" : ", ", printable(to_text(path)), problem);
  }
  if (!field.is_required) {
    return std::nullopt;
  }
  throw Error(ErrorCode::kNotFound,
              fmt::format("the sample has none of {}; it has these parts of its dataset's field "
                          "map: {}",
                          tried, names_of(sample.fields)));
}

}  // namespace

TypedSampleMaker::TypedSampleMaker(TypedSamples samples, const SampleDecoder& decoder)
    : samples_(std::move(samples)), decoder_(decoder) {
  validate(samples_);
}

void TypedSampleMaker::make(Sample& sample, BufferAllocator& memory, CallRng* rng) const {
  if (samples_.type == SampleType::kCrude) {
    decoder_.decode(sample, memory, rng);
    return;
  }
  DecodedParts parts(sample, decoder_, memory, rng);
  Mapping fields;
  for (const SampleField& field : fields_of(samples_.type)) {
    const FieldExpression* const expression = samples_.field_map.find(field.name);
    if (expression == nullptr) {
      continue;
    }
    try {
      if (std::optional<Value> value = value_of(field, *expression, parts, sample)) {
        fields.emplace_back(std::string(field.name), std::move(*value));
      }
    } catch (const Error& error) {
      ErrorContext context = error.context();
      if (!sample.keys.empty()) {
        context.sample_key = std::string(sample.keys.front());
      }
      throw Error(error.code(),
                  fmt::format("field '{}' of {}: {}", field.name, class_name(samples_.type),
                              error.message()),
                  std::move(context));
    }
  }
  sample.fields = std::move(fields);
}

Mapping parts_by_column(std::vector<JoinedColumn> columns) {
  Mapping parts;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].sample) {
      parts.emplace_back(std::to_string(i), Value(std::move(columns[i].sample->fields)));
    }
  }
  return parts;
}

namespace {

// Makes the samples of one leaf.
class LeafMaker {
 public:
  LeafMaker(const PipelineLeaf& leaf, const SampleDecoder& decoder)
      : is_join_(!leaf.typed_columns.empty()) {
    for (const TypedSamples& column : leaf.typed_columns) {
      makers_.emplace_back(column, decoder);
    }
    if (!is_join_) {
      makers_.emplace_back(leaf.typed.value_or(TypedSamples()), decoder);
    }
  }

  void make(Sample& sample, BufferAllocator& memory, CallRng* rng) const {
    if (!is_join_) {
      makers_.front().make(sample, memory, rng);
      return;
    }
    std::vector<JoinedColumn> columns;
    for (auto& [number, parts] : sample.fields) {
      Sample column{.keys = sample.keys,
                    .restore_key = {},
                    .fields = std::move(std::get<Mapping>(parts.base())),
                    .sources = {}};
      makers_.at(std::stoul(number)).make(column, memory, rng);
      columns.push_back({.sample = std::move(column)});
    }
    sample.fields = merge_columns(std::move(columns));
  }

 private:
  bool is_join_;
  std::vector<TypedSampleMaker> makers_;
};

}  // namespace

MapFunction typed_samples(const SampleDecoderOptions& options,
                          const std::vector<PipelineLeaf>& leaves, MapFunction next) {
  const SampleDecoder decoder(options);
  std::vector<LeafMaker> makers;
  for (const PipelineLeaf& leaf : leaves) {
    try {
      makers.emplace_back(leaf, decoder);
    } catch (Error& error) {
      error.with({.path = leaf.name});
      throw;
    }
  }
  return [decoder, makers = std::move(makers), next = std::move(next)](Sample sample,
                                                                       CallContext& context) {
    makers.at(static_cast<std::size_t>(leaf_of(sample.restore_key)))
        .make(sample, context.memory(), decoder.rng_of(context));
    return next ? next(std::move(sample), context) : sample;
  };
}

}  // namespace energon
