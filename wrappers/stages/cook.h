// Turns crude samples (the parts as stored in the shard) into the samples of a task.
//
// Labels select the datasets of a cooker: the first cooker whose labels are all in a dataset's
// subflavors cooks its samples. The choice is made when the pipeline is created. A cook function
// may read more files from its own dataset (the primary store), from the auxiliary datasets that
// the metadataset names, and through a cache on a local disk. In Energon: Cooker, CrudeSample.

#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "energon/read/lazy_file.h"
#include "energon/sample/sample.h"
#include "energon/stage/call_context.h"
#include "io/store/file_cache.h"
#include "io/store/file_store.h"
#include "wrappers/orders/pipeline_leaf.h"
#include "wrappers/stages/map.h"

namespace energon {

/// The stores of one leaf, in the process that runs the pipeline.
struct CookStores {
  std::unique_ptr<FileStore> primary = nullptr;  ///< null without access by name
  std::map<std::string, std::unique_ptr<FileStore>> aux = {};
};

/// The interface for cook functions. Valid during one call.
class CookContext {
 public:
  /// `stores` and `leaf` belong to the sample's dataset; `cache` is called at the first use of the
  /// cache. All must outlive the context.
  CookContext(CallContext& call, std::string sample_key, const PipelineLeaf& leaf,
              CookStores& stores, const std::function<FileCache&()>& cache)
      : call_(call),
        sample_key_(std::move(sample_key)),
        leaf_(leaf),
        stores_(stores),
        cache_(cache) {}

  /// Random numbers for this sample.
  CallRng& rng() { return call_.rng(); }
  const CallContext& call() const { return call_; }

  /// A file of the sample's own dataset; a name that begins with a dot is a part of this sample.
  /// Throws Error (kUnsupported) for datasets without access by name.
  SharedBytes primary(std::string_view name);

  /// A file of the auxiliary dataset `store`. For an unknown store, throws Error (kNotFound) with a
  /// list of the stores.
  SharedBytes aux(std::string_view store, std::string_view name);

  /// The prepared metadata of such a file (FileStore::get_media_metadata()), without reading it.
  std::optional<MediaMetadata> primary_media(std::string_view name);
  std::optional<MediaMetadata> aux_media(std::string_view store, std::string_view name);

  /// As primary() and aux(), but read in the background into the pipeline's cache on a local disk,
  /// for large files that only the samples of a pack need. Resolve them with LazyBytes::get() in
  /// postencode_sample or encode_sample, because lazy fields cannot leave the worker. They are not
  /// listed in the sample's sources.
  LazyBytes lazy_primary(std::string_view name);
  LazyBytes lazy_aux(std::string_view store, std::string_view name);

  /// The sources of the files read so far, to add to the sample's sources.
  std::vector<SampleSource> take_sources() { return std::move(sources_); }

 private:
  std::string primary_name(std::string_view name) const;
  [[noreturn]] void fail_without_primary() const;
  [[noreturn]] void fail_unknown_aux(std::string_view store) const;
  SharedBytes take(FileStore& store, const std::string& name);

  CallContext& call_;
  const std::string sample_key_;
  const PipelineLeaf& leaf_;
  CookStores& stores_;
  const std::function<FileCache&()>& cache_;
  std::vector<SampleSource> sources_;
};

using CookFunction = std::function<Sample(Sample crude, CookContext& context)>;

struct Cooker {
  CookFunction cook = nullptr;
  /// A JSON object. The dataset's subflavors must have all of its members, with equal values. The
  /// empty object matches every dataset.
  std::string has_subflavors = "{}";
};

/// The function of the stage "cook": calls the cooker of each sample's leaf. As in Energon, samples
/// of a leaf with a type other than crude are not cooked. Throws Error (kInvalidArgument) for
/// another leaf without a matching cooker, naming the leaf and its subflavors, and for bad options
/// of the cache.
MapFunction cook_function(const std::vector<Cooker>& cookers,
                          const std::vector<PipelineLeaf>& leaves,
                          const FileCacheOptions& cache = {});

}  // namespace energon
