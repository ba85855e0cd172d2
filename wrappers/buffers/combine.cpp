#include "wrappers/buffers/combine.h"

#include <cstdint>
#include <exception>
#include <iterator>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "energon/sample/sample.h"
#include "io/byte_codec.h"
#include "io/error.h"

namespace energon {

// --- Items of several samples ---

Sample origins_of(const Sample& sample) {
  Sample origins;
  origins.keys = sample.keys;
  origins.sources = sample.sources;
  return origins;
}

void set_origins(Sample& combined, const Sample& origins) {
  if (combined.keys.empty()) {
    combined.keys = origins.keys;
    combined.sources = origins.sources;
  }
}

void move_origins(std::span<Sample> samples, Sample& item) {
  std::size_t characters = item.keys.characters().size();
  for (const Sample& sample : samples) {
    characters += sample.keys.characters().size();
  }
  item.keys.reserve(item.keys.size() + samples.size(), characters);
  item.sources.reserve(item.sources.size() + samples.size());
  for (Sample& sample : samples) {
    const auto before = static_cast<std::uint32_t>(item.keys.size());
    for (SampleSource& source : sample.sources) {
      source.sample += before;
      item.sources.push_back(std::move(source));
    }
    item.keys.append(sample.keys);
  }
}

void check_fields_of(std::span<const Sample> samples, const Mapping& fields) {
  if (!find_twice(fields)) {
    return;
  }
  Sample combined;
  combined.fields = fields;
  for (const Sample& sample : samples) {
    combined.keys.append(sample.keys);
  }
  check_made(combined);
}

std::vector<RestoreKey> restore_keys(std::span<const Sample> samples) {
  std::vector<RestoreKey> keys;
  keys.reserve(samples.size());
  for (const Sample& sample : samples) {
    keys.push_back(sample.restore_key);
  }
  return keys;
}

RestoreKey key_of_list(Stage stage, std::initializer_list<std::int64_t> integers,
                       std::span<const Sample> samples) {
  RestoreKeyList list(stage, integers);
  for (const Sample& sample : samples) {
    list.add(sample.restore_key);
  }
  return list.finish();
}

std::vector<Sample> restore_samples(Dataset& inner, std::span<const RestoreKey> keys) {
  std::vector<Sample> samples;
  samples.reserve(keys.size());
  for (const RestoreKey& key : keys) {
    samples.push_back(inner.restore_sample(key));
  }
  return samples;
}

std::vector<FailedSample> failed_samples(std::span<const Sample> samples) {
  std::vector<FailedSample> failed;
  for (const Sample& sample : samples) {
    std::vector<FailedSample> some = failed_samples(sample);
    std::move(some.begin(), some.end(), std::back_inserter(failed));
  }
  return failed;
}

// --- Saved samples ---

std::string encode_keys(std::span<const RestoreKey> keys) {
  ByteWriter writer;
  writer.u32(static_cast<std::uint32_t>(keys.size()));
  for (const RestoreKey& key : keys) {
    writer.text(key.bytes());
  }
  return writer.take();
}

std::vector<RestoreKey> decode_keys(std::string_view bytes) {
  ByteReader reader(bytes, "a list of saved keys");
  std::vector<RestoreKey> keys(reader.count(sizeof(std::uint32_t)));
  for (RestoreKey& key : keys) {
    try {
      key = RestoreKey::from_bytes(reader.text());
    } catch (const Error& error) {
      reader.fail(error.message());
    }
  }
  reader.finish();
  return keys;
}

std::vector<RestoreKey> decode_keys(std::string_view bytes, const Dataset& inner) {
  std::vector<RestoreKey> keys = decode_keys(bytes);
  for (const RestoreKey& key : keys) {
    inner.check_key(key);
  }
  return keys;
}

Sample rebuild_sample(Dataset& inner, const RestoreKey& key) {
  try {
    return inner.restore_sample(key);
  } catch (...) {
    fail_to_rebuild(key);
  }
}

void fail_to_rebuild(const RestoreKey& key) {
  const Error cause = to_error(std::current_exception(), "");
  throw Error(
      cause.code(),
      fmt::format("'{}' of the saved position cannot be rebuilt: {}", key.text(), cause.message()),
      cause.context())
      .with_detail(std::string(cause.detail()));
}

// --- SampleBuffer ---

SampleBuffer::SampleBuffer(Dataset& inner, PayloadBudget& budget)
    : SampleBuffer([&inner](const RestoreKey& key) { return rebuild_sample(inner, key); }, budget) {
}

void SampleBuffer::push_back(Sample sample) {
  const std::uint64_t bytes = payload_bytes(sample);
  Entry entry;
  if (bytes <= budget_.limit_bytes && budget_.held_bytes <= budget_.limit_bytes - bytes) {
    entry = {std::move(sample), bytes, true};
  } else {
    entry.sample.restore_key = std::move(sample.restore_key);
  }
  entries_.push_back(std::move(entry));
  budget_.held_bytes += entries_.back().payload_bytes;
}

std::vector<Sample> SampleBuffer::take_front(std::size_t count) {
  std::vector<Sample> samples(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!entries_[i].is_held) {
      samples[i] = rebuild_(entries_[i].sample.restore_key);
    }
  }
  for (Sample& sample : samples) {
    Entry& entry = entries_.front();
    if (entry.is_held) {
      sample = std::move(entry.sample);
    }
    budget_.held_bytes -= entry.payload_bytes;
    entries_.pop_front();
  }
  return samples;
}

void SampleBuffer::drop_front(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    budget_.held_bytes -= entries_.front().payload_bytes;
    entries_.pop_front();
  }
}

void SampleBuffer::reorder(std::span<const std::size_t> order) {
  std::deque<Entry> entries;
  for (const std::size_t position : order) {
    entries.push_back(std::move(entries_[position]));
  }
  entries_ = std::move(entries);
}

void SampleBuffer::clear() {
  for (const Entry& entry : entries_) {
    budget_.held_bytes -= entry.payload_bytes;
  }
  entries_.clear();
}

std::string SampleBuffer::save() const {
  std::vector<RestoreKey> keys;
  keys.reserve(entries_.size());
  for (const Entry& entry : entries_) {
    keys.push_back(entry.sample.restore_key);
  }
  return encode_keys(keys);
}

void SampleBuffer::restore(std::string_view saved) {
  std::deque<Entry> entries;
  for (RestoreKey& key : decode_keys(saved)) {
    entries.emplace_back().sample.restore_key = std::move(key);
  }
  clear();
  entries_ = std::move(entries);
}

}  // namespace energon
