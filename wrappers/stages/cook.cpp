#include "wrappers/stages/cook.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "io/error.h"

namespace energon {
namespace {

// One per pipeline; stores and cache are opened on first use, in the process that runs the
// pipeline.
class CookerSet {
 public:
  CookerSet(const std::vector<Cooker>& cookers, const std::vector<PipelineLeaf>& leaves,
            const FileCacheOptions& cache)
      : cache_options_(cache) {
    validate(cache);
    for (const PipelineLeaf& leaf : leaves) {
      places_.push_back({.leaf = leaf, .cook = leaf.is_crude() ? choose(cookers, leaf) : nullptr});
    }
  }

  Sample cook(Sample crude, CallContext& call) {
    Place& place = places_.at(static_cast<std::size_t>(leaf_of(crude.restore_key)));
    if (!place.cook) {
      return crude;  // the leaf is typed
    }
    place.open();
    const std::function<FileCache&()> cache = [this]() -> FileCache& {
      if (!cache_) {
        cache_ = std::make_unique<FileCache>(cache_options_);
      }
      return *cache_;
    };
    CookContext context(call, std::string(crude.keys.empty() ? "" : crude.keys.front()), place.leaf,
                        place.stores, cache);
    Keys keys = crude.keys;
    std::vector<SampleSource> sources = crude.sources;
    Sample cooked = place.cook(std::move(crude), context);
    // A function that builds a new sample need not copy these.
    if (cooked.keys.empty()) {
      cooked.keys = std::move(keys);
    }
    if (cooked.sources.empty()) {
      cooked.sources = std::move(sources);
    }
    for (SampleSource& source : context.take_sources()) {
      cooked.sources.push_back(std::move(source));
    }
    return cooked;
  }

 private:
  struct Place {
    PipelineLeaf leaf;
    CookFunction cook;
    bool is_open = false;
    CookStores stores = {};

    void open() {
      if (is_open) {
        return;
      }
      stores.primary = leaf.primary ? leaf.primary() : nullptr;
      for (const auto& [name, opener] : leaf.aux) {
        stores.aux[name] = opener();
      }
      is_open = true;
    }
  };

  static Config wanted_by(const Cooker& cooker) {
    Config wanted = Config::parse(cooker.has_subflavors, nullptr, false);
    if (!wanted.is_object()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("has_subflavors of a cooker is {}, expected a JSON object",
                              printable(cooker.has_subflavors)));
    }
    return wanted;
  }

  static CookFunction choose(const std::vector<Cooker>& cookers, const PipelineLeaf& leaf) {
    const Config subflavors = Config::parse(leaf.subflavors);
    for (const Cooker& cooker : cookers) {
      const Config wanted = wanted_by(cooker);
      bool fits = true;
      for (const auto& [label, value] : wanted.items()) {
        fits = fits && subflavors.contains(label) && subflavors[label] == value;
      }
      if (fits && !cooker.cook) {
        throw Error(ErrorCode::kInvalidArgument, "the cooker for this dataset has no function",
                    {.path = leaf.name});
      }
      if (fits) {
        return cooker.cook;
      }
    }
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("no cooker matches this dataset; its subflavors are {}",
                            printable(leaf.subflavors)),
                {.path = leaf.name});
  }

  const FileCacheOptions cache_options_;
  std::vector<Place> places_;  // by leaf
  std::unique_ptr<FileCache> cache_;
};

}  // namespace

SharedBytes CookContext::take(FileStore& store, const std::string& name) {
  FileStoreItem item = store.get(name);
  sources_.push_back({.shard = std::make_shared<const SourceShard>(SourceShard{
                          .dataset_path = store.path(), .shard_name = std::move(item.shard)}),
                      .index_in_shard = item.sample_index,
                      .bytes = item.range});
  return std::move(item.bytes);
}

std::string CookContext::primary_name(std::string_view name) const {
  return name.starts_with('.') ? sample_key_ + std::string(name) : std::string(name);
}

void CookContext::fail_without_primary() const {
  throw Error(ErrorCode::kUnsupported,
              "files of this dataset cannot be looked up by name: prepare it (energon prepare), or "
              "use an auxiliary dataset",
              {.path = leaf_.name, .sample_key = sample_key_});
}

void CookContext::fail_unknown_aux(std::string_view store) const {
  std::vector<std::string> names;
  for (const auto& [known, unused] : leaf_.aux) {
    names.push_back(printable(known));
  }
  throw Error(ErrorCode::kNotFound,
              fmt::format("the metadataset names no auxiliary dataset '{}' for this dataset; there "
                          "are: {}",
                          printable(store),
                          names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))),
              {.path = leaf_.name, .sample_key = sample_key_});
}

SharedBytes CookContext::primary(std::string_view name) {
  if (!stores_.primary) {
    fail_without_primary();
  }
  return take(*stores_.primary, primary_name(name));
}

SharedBytes CookContext::aux(std::string_view store, std::string_view name) {
  const auto found = stores_.aux.find(std::string(store));
  if (found == stores_.aux.end()) {
    fail_unknown_aux(store);
  }
  return take(*found->second, std::string(name));
}

std::optional<MediaMetadata> CookContext::primary_media(std::string_view name) {
  if (!stores_.primary) {
    fail_without_primary();
  }
  return stores_.primary->get_media_metadata(primary_name(name));
}

std::optional<MediaMetadata> CookContext::aux_media(std::string_view store, std::string_view name) {
  const auto found = stores_.aux.find(std::string(store));
  if (found == stores_.aux.end()) {
    fail_unknown_aux(store);
  }
  return found->second->get_media_metadata(name);
}

LazyBytes CookContext::lazy_primary(std::string_view name) {
  if (!leaf_.primary) {
    fail_without_primary();
  }
  return lazy_bytes(cache_().get_lazy(stores_.primary->path(), leaf_.primary, primary_name(name)));
}

LazyBytes CookContext::lazy_aux(std::string_view store, std::string_view name) {
  const auto found = leaf_.aux.find(std::string(store));
  if (found == leaf_.aux.end()) {
    fail_unknown_aux(store);
  }
  return lazy_bytes(
      cache_().get_lazy(stores_.aux.at(found->first)->path(), found->second, std::string(name)));
}

MapFunction cook_function(const std::vector<Cooker>& cookers,
                          const std::vector<PipelineLeaf>& leaves, const FileCacheOptions& cache) {
  const auto cooker_set = std::make_shared<CookerSet>(cookers, leaves, cache);
  return [cooker_set](Sample crude, CallContext& call) {
    return cooker_set->cook(std::move(crude), call);
  };
}

}  // namespace energon
