#include "protocols/torchdata/stateless_source.h"

#include <utility>

#include <fmt/format.h>

#include "energon/checkpoint/loader_state.h"
#include "io/error.h"

namespace energon {
namespace {

constexpr const char* kStatelessType = "Stateless";

State stateless_position(std::int64_t epoch, std::int64_t batches) {
  return {kStatelessType, {{"epoch", epoch}, {"batches", batches}}, {}};
}

}  // namespace

StatelessSource::StatelessSource(GeneratorFactory make_generator, int rank, int world_size)
    : make_generator_(std::move(make_generator)), rank_(rank), world_size_(world_size) {}

EpochGenerator StatelessSource::begin() const {
  EpochGenerator generator = make_generator_();
  for (std::int64_t i = 0; i < handed_out_; ++i) {
    if (!generator()) {
      throw Error(ErrorCode::kMismatch,
                  fmt::format("the state has a position after {} batches of epoch {}, but the "
                              "generator yields only {}",
                              handed_out_, epoch_, i));
    }
  }
  return generator;
}

std::optional<Sample> StatelessSource::next() {
  if (!generator_) {
    generator_ = begin();
  }
  std::optional<Sample> batch = generator_();
  if (batch) {
    ++handed_out_;
  } else {
    generator_ = nullptr;
    ++epoch_;
    handed_out_ = 0;
  }
  return batch;
}

SavableDataLoaderState StatelessSource::save_state_rank() {
  return source_state(stateless_position(epoch_, handed_out_), {epoch_, handed_out_},
                      {.rank = rank_, .world_size = world_size_});
}

void StatelessSource::restore_state_rank(const SavableDataLoaderState& state) {
  const State& position = source_position_in(state, kStatelessType);
  check_node(position, stateless_position(0, 0));
  const std::int64_t epoch = position.integer("epoch");
  const std::int64_t batches = position.integer("batches");
  if (epoch < 0 || batches < 0) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("invalid position after {} batches of epoch {}", batches, epoch));
  }
  generator_ = nullptr;
  epoch_ = epoch;
  handed_out_ = batches;
  if (batches > 0 && warnings_.empty()) {
    warnings_.push_back(
        fmt::format("the source has no saved state: to continue after batch {}, all previous "
                    "batches are made again and dropped",
                    batches));
  }
}

}  // namespace energon
