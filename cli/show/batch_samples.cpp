#include "cli/show/batch_samples.h"

#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/show/found_sample.h"
#include "cli/show/output.h"
#include "io/error.h"
#include "io/hash.h"

namespace energon::cli {

using BatchJson = nlohmann::ordered_json;

const Value* part_of_sample(const Value& field, std::size_t i) {
  const Value& part = std::get<List>(field.base()).at(i);
  const auto* const list = std::get_if<List>(&part.base());
  return list != nullptr && list->empty() ? nullptr : &part;  // as list_parts() says that
}

namespace {

std::string describe_part(const Value& part) {
  const auto* const bytes = std::get_if<SharedBytes>(&part.base());
  return bytes != nullptr ? plural(static_cast<std::int64_t>(bytes->size()), "byte")
                          : describe(part);
}

}  // namespace

BatchJson batch_json(const Sample& batch) {
  BatchJson json = {{"keys", batch.keys.strings()},
                    {"restore_key", batch.restore_key.text()},
                    {"digest", to_hex(digest(batch))},
                    {"samples", BatchJson::array()}};
  for (std::size_t i = 0; i < batch.keys.size(); ++i) {
    BatchJson sample = {{"key", batch.keys[i]}};
    sample.update(source_json(source_of(batch, i)));
    sample["parts"] = BatchJson::array();
    for (const auto& [name, field] : batch.fields) {
      if (const Value* const part = part_of_sample(field, i)) {
        const auto* const bytes = std::get_if<SharedBytes>(&part->base());
        sample["parts"].push_back(bytes != nullptr
                                      ? BatchJson{{"name", name}, {"size", bytes->size()}}
                                      : BatchJson{{"name", name}, {"value", describe(*part)}});
      }
    }
    json["samples"].push_back(std::move(sample));
  }
  return json;
}

void print_batch(const Sample& batch) {
  output().print("restore key: {}\n", batch.restore_key.text());
  output().print("digest:      {}\n", to_hex(digest(batch)));
  for (std::size_t i = 0; i < batch.keys.size(); ++i) {
    output().print("sample {}: {} ({}, sample {})\n", i, printable(batch.keys[i]),
                   printable(source_of(batch, i).shard->shard_name),
                   source_of(batch, i).index_in_shard);
    for (const auto& [name, field] : batch.fields) {
      if (const Value* const part = part_of_sample(field, i)) {
        output().print("  {}: {}\n", printable(name), describe_part(*part));
      }
    }
  }
}

}  // namespace energon::cli
