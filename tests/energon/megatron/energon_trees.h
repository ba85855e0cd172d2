// States of Energon's loader as JSON (see energon/megatron/energon_state.h), made from ours: the
// inverse of the import, for the stages that its tests need.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "energon/checkpoint/loader_state.h"
#include "energon/megatron/energon_state.h"

namespace energon::testing {

using Json = nlohmann::ordered_json;

/// torch.Generator.get_state() of a generator of `seed` after `draws` numbers, by a separate model
/// of torch's generator.
std::string torch_generator(std::uint32_t seed, std::uint64_t draws);

/// The state of one rank, whose loader has kept each state it delivered (offset 0). `slices` are
/// those of the only dataset, by logical shard.
Json energon_rank(const SavableDataLoaderState& state, const std::vector<std::int64_t>& slices,
                  bool has_workers);

/// energon_rank_state() of a file rank.pt.
EnergonRankState parsed(const Json& rank);

/// The first value in `json`, outermost first, with an entry `name`. Throws if there is none.
Json& holder_of(Json& json, const std::string& name);

}  // namespace energon::testing
