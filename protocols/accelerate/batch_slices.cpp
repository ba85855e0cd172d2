#include "protocols/accelerate/batch_slices.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/byte_codec.h"
#include "io/error.h"

namespace energon {

// --- Slices ---

namespace {

constexpr std::string_view kAdvice =
    "dispatched batches may differ only in their number of samples: pad to a fixed "
    "shape, or let each rank read its own share (ShardAdapter), or split_batches";

[[noreturn]] void fail(const std::string& field, const std::string& reason) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("batches cannot be joined: field '{}' {}; {}", printable(field), reason,
                          kAdvice));
}

bool counts_samples(const Tensor& tensor, std::int64_t samples) {
  return !tensor.shape.empty() && tensor.shape[0] == samples;
}

// Bytes per index of the first dimension.
std::size_t row_bytes(const Tensor& tensor) {
  std::size_t bytes = size_of(tensor.dtype);
  for (std::size_t i = 1; i < tensor.shape.size(); ++i) {
    bytes *= static_cast<std::size_t>(tensor.shape[i]);
  }
  return bytes;
}

Mapping slice_fields(const Mapping& fields, std::int64_t samples, std::int64_t begin,
                     std::int64_t end) {
  Mapping sliced;
  sliced.reserve(fields.size());
  for (const auto& [name, value] : fields) {
    if (const auto* list = std::get_if<List>(&value.base());
        list != nullptr && static_cast<std::int64_t>(list->size()) == samples) {
      sliced.emplace_back(name, List(list->begin() + begin, list->begin() + end));
    } else if (const auto* tensor = std::get_if<Tensor>(&value.base());
               tensor != nullptr && counts_samples(*tensor, samples)) {
      Tensor part = *tensor;
      part.shape[0] = end - begin;
      const std::size_t row = row_bytes(*tensor);
      part.data.view = tensor->data.view.subspan(static_cast<std::size_t>(begin) * row,
                                                 static_cast<std::size_t>(end - begin) * row);
      sliced.emplace_back(name, std::move(part));
    } else if (const auto* mapping = std::get_if<Mapping>(&value.base())) {
      sliced.emplace_back(name, slice_fields(*mapping, samples, begin, end));
    } else {
      sliced.emplace_back(name, value);
    }
  }
  return sliced;
}

// A field of one batch, and the number of samples in that batch.
struct Piece {
  const Value* value;
  std::int64_t samples;
};

std::uint64_t digest_of(const Value& value) {
  Sample sample;
  sample.fields.emplace_back("", value);
  return digest(sample);
}

class Joiner {
 public:
  // Without `copy`, only checks, and the result is meaningless.
  explicit Joiner(bool copy) : copy_(copy) {}

  Mapping join(const std::string& path, const std::vector<const Mapping*>& mappings,
               const std::vector<std::int64_t>& samples) const {
    const Mapping& first = *mappings.front();
    Mapping joined;
    joined.reserve(first.size());
    for (std::size_t place = 0; place < first.size(); ++place) {
      const std::string field = path.empty() ? first[place].first : path + "." + first[place].first;
      std::vector<Piece> pieces;
      pieces.reserve(mappings.size());
      for (std::size_t i = 0; i < mappings.size(); ++i) {
        const Mapping& mapping = *mappings[i];
        if (mapping.size() != first.size() || mapping[place].first != first[place].first) {
          fail(field, "is not at the same place in all of them");
        }
        pieces.push_back({&mapping[place].second, samples[i]});
      }
      joined.emplace_back(first[place].first, join_values(field, pieces, samples));
    }
    for (const Mapping* mapping : mappings) {
      if (mapping->size() != first.size()) {
        fail(path, "has more fields in some of them");
      }
    }
    return joined;
  }

 private:
  Value join_values(const std::string& field, const std::vector<Piece>& pieces,
                    const std::vector<std::int64_t>& samples) const {
    const Value::Base& first = pieces.front().value->base();
    for (const Piece& piece : pieces) {
      if (piece.value->base().index() != first.index()) {
        fail(field, "has different types");
      }
    }
    if (std::holds_alternative<Mapping>(first)) {
      std::vector<const Mapping*> mappings;
      mappings.reserve(pieces.size());
      for (const Piece& piece : pieces) {
        mappings.push_back(&std::get<Mapping>(piece.value->base()));
      }
      return join(field, mappings, samples);
    }
    if (std::holds_alternative<List>(first) && all_of<List>(pieces, [](const List& list) {
          return static_cast<std::int64_t>(list.size());
        })) {
      return join_lists(pieces);
    }
    if (std::holds_alternative<Tensor>(first) && all_of<Tensor>(pieces, [](const Tensor& tensor) {
          return tensor.shape.empty() ? -1 : tensor.shape[0];
        })) {
      return join_tensors(field, pieces);
    }
    const std::uint64_t expected = digest_of(*pieces.front().value);
    for (const Piece& piece : pieces) {
      if (digest_of(*piece.value) != expected) {
        fail(field, "belongs to the batch as a whole and differs");
      }
    }
    return *pieces.front().value;
  }

  template <class Kind, class Length>
  static bool all_of(const std::vector<Piece>& pieces, const Length& length) {
    return std::all_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
      return length(std::get<Kind>(piece.value->base())) == piece.samples;
    });
  }

  Value join_lists(const std::vector<Piece>& pieces) const {
    List joined;
    for (const Piece& piece : pieces) {
      const List& list = std::get<List>(piece.value->base());
      if (copy_) {
        joined.insert(joined.end(), list.begin(), list.end());
      }
    }
    return joined;
  }

  Value join_tensors(const std::string& field, const std::vector<Piece>& pieces) const {
    Tensor joined = std::get<Tensor>(pieces.front().value->base());
    std::size_t total_bytes = 0;
    std::int64_t rows = 0;
    for (const Piece& piece : pieces) {
      const Tensor& tensor = std::get<Tensor>(piece.value->base());
      if (tensor.dtype != joined.dtype ||
          !std::equal(tensor.shape.begin() + 1, tensor.shape.end(), joined.shape.begin() + 1,
                      joined.shape.end())) {
        fail(field, fmt::format("is {} of shape ({}) and {} of shape ({}), which differ beyond the "
                                "first dimension",
                                to_string(joined.dtype), fmt::join(joined.shape, ", "),
                                to_string(tensor.dtype), fmt::join(tensor.shape, ", ")));
      }
      total_bytes += tensor.data.size();
      rows += tensor.shape[0];
    }
    if (!copy_) {
      return joined;
    }
    const auto memory = std::make_shared<std::vector<std::byte>>();
    memory->reserve(total_bytes);
    for (const Piece& piece : pieces) {
      const ByteView view = std::get<Tensor>(piece.value->base()).data.view;
      memory->insert(memory->end(), view.begin(), view.end());
    }
    joined.shape[0] = rows;
    joined.data = {ByteView(*memory), memory};
    return joined;
  }

  const bool copy_;
};

Mapping join_fields(std::span<const Sample> batches, bool copy) {
  std::vector<const Mapping*> mappings;
  std::vector<std::int64_t> samples;
  mappings.reserve(batches.size());
  samples.reserve(batches.size());
  for (const Sample& batch : batches) {
    mappings.push_back(&batch.fields);
    samples.push_back(sample_count(batch));
  }
  return mappings.empty() ? Mapping() : Joiner(copy).join({}, mappings, samples);
}

}  // namespace

std::int64_t sample_count(const Sample& batch) {
  return static_cast<std::int64_t>(batch.keys.size());
}

Sample slice_batch(const Sample& batch, std::int64_t begin, std::int64_t end) {
  const std::int64_t samples = sample_count(batch);
  if (begin == 0 && end == samples) {
    return batch;
  }
  Sample slice;
  slice.keys.append(batch.keys, static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
  slice.fields = slice_fields(batch.fields, samples, begin, end);
  for (const SampleSource& source : batch.sources) {
    if (source.sample >= static_cast<std::uint64_t>(begin) &&
        source.sample < static_cast<std::uint64_t>(end)) {
      slice.sources.push_back(source);
      slice.sources.back().sample -= static_cast<std::uint32_t>(begin);
    }
  }
  return slice;
}

Sample concatenate_batches(std::span<const Sample> batches) {
  if (batches.size() == 1) {
    return batches.front();
  }
  Sample joined;
  joined.fields = join_fields(batches, true);
  for (const Sample& batch : batches) {
    const auto offset = static_cast<std::uint32_t>(joined.keys.size());
    joined.keys.append(batch.keys);
    for (const SampleSource& source : batch.sources) {
      joined.sources.push_back(source);
      joined.sources.back().sample += offset;
    }
  }
  return joined;
}

void check_concatenation(std::span<const Sample> batches) {
  if (batches.size() > 1) {
    join_fields(batches, false);
  }
}

Sample slice_batches(std::span<const Sample> batches, std::int64_t begin, std::int64_t end) {
  std::vector<Sample> pieces;
  std::int64_t position = 0;
  for (const Sample& batch : batches) {
    const std::int64_t samples = sample_count(batch);
    const std::int64_t from = std::max(begin, position) - position;
    const std::int64_t to = std::min(end, position + samples) - position;
    if (from < to) {
      pieces.push_back(slice_batch(batch, from, to));
    }
    position += samples;
  }
  return concatenate_batches(pieces);
}

// --- FirstBatches ---

void FirstBatches::add(const Sample& batch) {
  keys_.push_back({batch.restore_key.bytes(), sample_count(batch)});
  if (batches_.size() + 1 == keys_.size()) {
    batches_.push_back(batch);
    batches_.back().place.reset();  // like rebuilt batches
  }
}

void FirstBatches::clear() {
  keys_.clear();
  batches_.clear();
}

std::int64_t FirstBatches::samples() const {
  std::int64_t samples = 0;
  for (const Key& key : keys_) {
    samples += key.samples;
  }
  return samples;
}

std::span<const Sample> FirstBatches::rebuild(BatchSource& source) {
  if (batches_.size() != keys_.size()) {
    batches_.clear();
    for (const Key& key : keys_) {
      batches_.push_back(source.restore_sample(
          key.restore_key.empty() ? RestoreKey() : RestoreKey::from_bytes(key.restore_key)));
    }
  }
  return batches_;
}

std::string FirstBatches::save() const {
  ByteWriter writer;
  writer.u32(static_cast<std::uint32_t>(keys_.size()));
  for (const Key& key : keys_) {
    writer.text(key.restore_key);
    writer.i64(key.samples);
  }
  return writer.take();
}

void FirstBatches::restore(std::string_view bytes) {
  ByteReader reader(bytes, "the first batches in a state");
  std::vector<Key> keys(reader.count(12));
  for (Key& key : keys) {
    key.restore_key = reader.text();
    key.samples = reader.i64();
  }
  reader.finish();
  keys_ = std::move(keys);
  batches_.clear();
}

}  // namespace energon
