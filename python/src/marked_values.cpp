#include "python/src/marked_values.h"

#include <algorithm>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/error.h"

namespace energon::python::marks {
namespace {

std::string draw_name() {
  std::random_device random;
  return fmt::format("__class__{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

std::string class_for_messages(const Sample& sample) {
  if (const std::string* path = class_of(sample.fields)) {
    const std::string whole = path->substr(0, path->find('@'));  // without an address
    return "a " + (whole.starts_with("builtins:") ? whole.substr(9) : whole);
  }
  const Value* value = sample.find(kWhole);
  if (value == nullptr) {
    return "a sample as it was read";
  }
  const auto* tuple = std::get_if<Tuple>(&value->base());
  return tuple != nullptr && kind_of_sealed(*tuple) != nullptr ? "an object without fields"
                                                               : describe(*value);
}

bool are_of_one_class(const Mapping& one, const Mapping& other) {
  const std::string* path = class_of(one);
  const std::string* other_path = class_of(other);
  return path == nullptr || other_path == nullptr ? path == other_path : *path == *other_path;
}

void check_classes(std::span<const Sample> samples) {
  const auto other = std::ranges::find_if(samples, [&](const Sample& sample) {
    return !are_of_one_class(sample.fields, samples.front().fields);
  });
  if (other == samples.end()) {
    return;
  }
  const auto key_of = [](const Sample& sample) {
    return sample.keys.empty() ? std::string() : printable(sample.keys.front());
  };
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("the standard batch needs samples of one class: sample '{}' is {}, "
                          "sample '{}' is {}; return one class from your function, or override "
                          "batch() of the task encoder",
                          key_of(samples.front()), class_for_messages(samples.front()),
                          key_of(*other), class_for_messages(*other)));
}

Value* find_value(Mapping& fields, std::size_t place, std::string_view name) {
  if (place < fields.size() && fields[place].first == name) {
    return &fields[place].second;
  }
  const auto found =
      std::ranges::find_if(fields, [&](const auto& entry) { return entry.first == name; });
  return found == fields.end() ? nullptr : &found->second;
}

// The values of one field if all of them are mappings, else fewer values.
std::vector<Value*> mappings_at(std::span<Mapping* const> mappings, std::size_t place,
                                std::string_view name) {
  std::vector<Value*> values;
  for (Mapping* mapping : mappings) {
    Value* value = find_value(*mapping, place, name);
    if (value == nullptr || !std::holds_alternative<Mapping>(value->base())) {
      break;
    }
    values.push_back(value);
  }
  return values;
}

// Seals the values of fields that hold objects of several classes, so that batches list them.
void seal_mixed_classes(std::span<Mapping* const> mappings) {
  for (std::size_t place = 0; place < mappings.front()->size(); ++place) {
    const std::vector<Value*> values =
        mappings_at(mappings, place, (*mappings.front())[place].first);
    if (values.size() < mappings.size()) {
      continue;  // listed by the batch function, or an error that names the field
    }
    std::vector<Mapping*> inner;
    inner.reserve(values.size());
    for (Value* value : values) {
      inner.push_back(&std::get<Mapping>(value->base()));
    }
    if (std::ranges::all_of(inner, [&](const Mapping* fields) {
          return are_of_one_class(*fields, *inner.front());
        })) {
      seal_mixed_classes(inner);
      continue;
    }
    for (Value* value : values) {
      *value = sealed(kInstance, std::move(*value));
    }
  }
}

}  // namespace

const std::string& name() {
  static const std::string drawn = draw_name();
  return drawn;
}

Value sealed(std::string_view kind, Value content) {
  Tuple tuple;
  tuple.items.reserve(3);
  tuple.items.emplace_back(name());
  tuple.items.emplace_back(std::string(kind));
  tuple.items.push_back(std::move(content));
  return tuple;
}

const std::string* kind_of_sealed(const Tuple& tuple) {
  if (tuple.items.size() < 3) {
    return nullptr;
  }
  const auto* mark = std::get_if<std::string>(&tuple.items[0].base());
  return mark != nullptr && *mark == name() ? std::get_if<std::string>(&tuple.items[1].base())
                                            : nullptr;
}

const std::string* class_of(const Mapping& fields) {
  if (fields.empty() || fields.front().first != name()) {
    return nullptr;
  }
  const Value* mark = &fields.front().second;
  if (const auto* of_batch = std::get_if<List>(&mark->base())) {
    mark = &of_batch->at(0);
  }
  return &std::get<std::string>(mark->base());
}

BatchFunction batch_of_objects(BatchFunction batch) {
  return [batch = std::move(batch)](std::span<Sample> samples, CallContext& context) {
    check_classes(samples);
    std::vector<Mapping*> mappings;
    for (Sample& sample : samples) {
      mappings.push_back(&sample.fields);
    }
    seal_mixed_classes(mappings);
    return batch(samples, context);
  };
}

bool is_origin(std::string_view field) {
  return field == kKey || field == "__restore_key__" || field == "__subflavors__" ||
         field == "__sources__";
}

}  // namespace energon::python::marks
