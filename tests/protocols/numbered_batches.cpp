#include "tests/protocols/numbered_batches.h"

#include <cstring>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace energon::testing {

Sample numbered_batch(std::span<const std::int64_t> numbers) {
  Sample batch;
  const auto memory = std::make_shared<std::vector<std::int64_t>>(numbers.begin(), numbers.end());
  List texts;
  for (const std::int64_t number : numbers) {
    batch.keys.push_back(std::to_string(number));
    texts.emplace_back("text of " + std::to_string(number));
  }
  Tensor tensor;
  tensor.dtype = DType::kInt64;
  tensor.shape = {static_cast<std::int64_t>(numbers.size()), 1};
  tensor.data = {std::as_bytes(std::span(*memory)), memory};
  batch.fields = {{"number", tensor}, {"text", texts}, {"kind", std::string("numbers")}};
  return batch;
}

std::shared_ptr<IndexedSource> numbered_source(std::int64_t count, std::int64_t batch_size,
                                               bool drop_last) {
  return std::make_shared<IndexedSource>(
      IndexedOptions{.samples = count, .batch_size = batch_size, .drop_last = drop_last},
      numbered_batch);
}

std::string show(const Sample& batch) {
  const auto& tensor = std::get<Tensor>(batch.at("number").base());
  const auto& texts = std::get<List>(batch.at("text").base());
  std::vector<std::int64_t> numbers(batch.keys.size());
  if (tensor.data.size() != numbers.size() * sizeof(std::int64_t) ||
      tensor.shape[0] != static_cast<std::int64_t>(numbers.size()) ||
      texts.size() != numbers.size()) {
    throw std::runtime_error("fields and keys have different lengths");
  }
  if (!numbers.empty()) {
    std::memcpy(numbers.data(), tensor.data.view.data(), tensor.data.size());
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (batch.keys[i] != std::to_string(numbers[i]) ||
        std::get<std::string>(texts[i].base()) != "text of " + std::string(batch.keys[i])) {
      throw std::runtime_error("fields and keys belong to different samples");
    }
  }
  return fmt::format("[{}]", fmt::join(numbers, ","));
}

std::string take(BatchSource& source, std::size_t limit) {
  std::vector<std::string> batches;
  while (batches.size() < limit) {
    const std::optional<Sample> batch = source.next();
    if (!batch) {
      break;
    }
    batches.push_back(show(*batch));
  }
  return fmt::format("{}", fmt::join(batches, " "));
}

}  // namespace energon::testing
