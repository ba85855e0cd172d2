#include "tests/recipes/streams.h"

#include <algorithm>
#include <utility>

#include <catch2/catch.hpp>

namespace energon::testing {

std::vector<Sample> Stream::take(std::size_t count) {
  std::vector<Sample> items;
  while (items.size() < count) {
    std::optional<Sample> item = dataset_->next();
    if (!item) {
      break;
    }
    items.push_back(std::move(*item));
  }
  return items;
}

std::vector<std::string> Stream::texts(std::size_t count, const std::string& part) {
  std::vector<std::string> texts;
  for (const Sample& item : take(count)) {
    texts.push_back(text_of(item.at(part)));
  }
  return texts;
}

std::vector<Sample> take_all(const PipelineFactory& make, int world_size, int num_workers) {
  std::vector<Sample> items;
  for (int rank = 0; rank < world_size; ++rank) {
    const WorkerConfig config{.rank = rank, .world_size = world_size, .num_workers = num_workers};
    for (int worker = 0; worker < config.logical_shards_per_rank(); ++worker) {
      for (Sample& item : Stream(make, config, worker).take()) {
        items.push_back(std::move(item));
      }
    }
  }
  return items;
}

Keys keys(const std::vector<Sample>& items) {
  Keys result;
  for (const Sample& item : items) {
    result.insert(result.end(), item.keys.begin(), item.keys.end());
  }
  return result;
}

std::string text_of(const Value& value) {
  if (const auto* bytes = std::get_if<SharedBytes>(&value.base())) {
    return std::string(bytes->text());
  }
  if (const auto* text = std::get_if<std::string>(&value.base())) {
    return *text;
  }
  std::string joined;
  for (const Value& element : std::get<List>(value.base())) {
    joined += (joined.empty() ? "" : ",") + text_of(element);
  }
  return joined;
}

std::vector<std::string> labels(SavableDataLoader& loader, std::size_t count) {
  std::vector<std::string> result;
  while (result.size() < count) {
    const std::optional<Sample> batch = loader.next();
    result.push_back(batch ? batch->restore_key.text() + "=" + std::to_string(digest(*batch))
                           : "end of epoch");
  }
  return result;
}

void check_resumes(const PipelineFactory& make, const LoaderOptions& options,
                   const std::vector<std::size_t>& saves, std::size_t more) {
  const std::size_t length = *std::max_element(saves.begin(), saves.end()) + more;
  const auto reference = labels(*std::make_unique<SavableDataLoader>(make, options), length);
  SavableDataLoader saved(make, options);
  std::size_t position = 0;
  for (const std::size_t save : saves) {
    labels(saved, save - position);
    position = save;
    const SavableDataLoaderState state =
        decode_loader_state(encode_loader_state(saved.save_state_rank()));
    SavableDataLoader restored(make, options);
    restored.restore_state_rank(state);
    INFO("saved after " << save);
    CHECK(labels(restored, more) ==
          std::vector(reference.begin() + static_cast<std::ptrdiff_t>(save),
                      reference.begin() + static_cast<std::ptrdiff_t>(save + more)));
  }
}

}  // namespace energon::testing
