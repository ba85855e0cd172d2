#include "wrappers/cook.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "io/error.h"

namespace energon {
namespace {

// One per pipeline; stores are opened when they are first needed, in the process that runs it.
class Kitchen {
 public:
  Kitchen(const std::vector<Cooker>& cookers, const std::vector<PipelineLeaf>& leaves) {
    for (const PipelineLeaf& leaf : leaves) {
      places_.push_back(
          {.cook = choose(cookers, leaf), .open_primary = leaf.primary, .open_aux = leaf.aux});
    }
  }

  Sample cook(Sample crude, CallContext& call) {
    Place& place = places_.at(static_cast<std::size_t>(leaf_of(crude.restore_key)));
    place.open();
    CookContext context(call, crude.keys.empty() ? "" : crude.keys.front(), place.primary.get(),
                        place.aux);
    std::vector<std::string> keys = crude.keys;
    std::vector<SampleSource> sources = crude.sources;
    Sample cooked = place.cook(std::move(crude), context);
    // A function that builds a new sample need not carry these over.
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
    CookFunction cook;
    StoreOpener open_primary;
    std::map<std::string, StoreOpener> open_aux;
    bool is_open = false;
    std::unique_ptr<FileStore> primary = nullptr;
    std::map<std::string, std::unique_ptr<FileStore>> aux = {};

    void open() {
      if (is_open) {
        return;
      }
      primary = open_primary ? open_primary() : nullptr;
      for (const auto& [name, opener] : open_aux) {
        aux[name] = opener();
      }
      is_open = true;
    }
  };

  static CookFunction choose(const std::vector<Cooker>& cookers, const PipelineLeaf& leaf) {
    const Config subflavors = Config::parse(leaf.subflavors);
    for (const Cooker& cooker : cookers) {
      bool fits = true;
      for (const auto& [label, value] : cooker.has_subflavors.items()) {
        fits = fits && subflavors.contains(label) && subflavors[label] == value;
      }
      if (fits) {
        return cooker.cook;
      }
    }
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("no cooker is for this dataset, its subflavors are {}",
                            printable(leaf.subflavors)),
                {.path = leaf.name});
  }

  std::vector<Place> places_;  // by leaf
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

SharedBytes CookContext::primary(std::string_view name) {
  if (primary_ == nullptr) {
    throw Error(ErrorCode::kUnsupported,
                "this dataset cannot be asked for files by name: prepare it (energon prepare), or "
                "use an auxiliary dataset",
                {.sample_key = sample_key_});
  }
  return take(*primary_,
              name.starts_with('.') ? sample_key_ + std::string(name) : std::string(name));
}

SharedBytes CookContext::aux(std::string_view store, std::string_view name) {
  const auto found = aux_.find(std::string(store));
  if (found == aux_.end()) {
    std::vector<std::string> names;
    for (const auto& [known, unused] : aux_) {
      names.push_back(known);
    }
    throw Error(ErrorCode::kNotFound,
                fmt::format("the metadataset names no auxiliary dataset '{}', it names: {}",
                            printable(store), fmt::join(names, ", ")),
                {.sample_key = sample_key_});
  }
  return take(*found->second, std::string(name));
}

MapFunction cook_function(const std::vector<Cooker>& cookers,
                          const std::vector<PipelineLeaf>& leaves) {
  const auto kitchen = std::make_shared<Kitchen>(cookers, leaves);
  return
      [kitchen](Sample crude, CallContext& call) { return kitchen->cook(std::move(crude), call); };
}

}  // namespace energon
