#include "python/src/python_functions.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/restore_key.h"
#include "energon/stage/call_context.h"
#include "io/concurrency.h"
#include "io/error.h"
#include "python/src/buffer_object.h"
#include "python/src/decoders.h"
#include "python/src/interpreter.h"
#include "python/src/marked_values.h"
#include "python/src/module.h"
#include "python/src/python_failure.h"
#include "python/src/python_names.h"
#include "python/src/python_to_value.h"
#include "python/src/store_object.h"
#include "wrappers/watch/timed_stage.h"

namespace nb = nanobind;

namespace energon::python {

// --- Files of cook functions ---

namespace {

/// The object that Python holds. Threads of the function may share it.
class CookFiles {
 public:
  CookFiles(CookContext& context, const StorePaths& paths) : paths_(paths), context_(&context) {}

  std::vector<std::string> aux_names() const {
    std::vector<std::string> names;
    for (const auto& [name, unused] : paths_.aux) {
      names.push_back(name);
    }
    return names;
  }
  const std::string& path(const std::optional<std::string>& store) const {
    return store ? paths_.aux.at(*store) : paths_.primary;
  }

  /// A file of `store`, or of the sample's own dataset if `store` is nullopt.
  std::pair<SharedBytes, SampleSource> get(const std::optional<std::string>& store,
                                           const std::string& name) {
    const ReleaseGil released;
    const MutexLock lock(mutex_);
    SharedBytes bytes = store ? context().aux(*store, name) : context().primary(name);
    std::vector<SampleSource> read = context().take_sources();
    sources_.insert(sources_.end(), read.begin(), read.end());
    return {std::move(bytes), std::move(read.back())};
  }
  LazyBytes lazy(const std::optional<std::string>& store, const std::string& name) {
    const ReleaseGil released;
    const MutexLock lock(mutex_);
    return store ? context().lazy_aux(*store, name) : context().lazy_primary(name);
  }
  std::optional<MediaMetadata> media(const std::optional<std::string>& store,
                                     const std::string& name) {
    const ReleaseGil released;
    const MutexLock lock(mutex_);
    return store ? context().aux_media(*store, name) : context().primary_media(name);
  }
  BufferAllocator& memory() {
    const MutexLock lock(mutex_);
    return context().call().memory();
  }
  std::vector<SampleSource> end() {
    const MutexLock lock(mutex_);
    context_ = nullptr;
    return std::move(sources_);
  }

 private:
  CookContext& context() ENERGON_REQUIRES(mutex_) {
    if (context_ == nullptr) {
      throw Error(ErrorCode::kInvalidArgument,
                  "a file store of a cook function was used after its call: read files in the "
                  "function, or keep cache.get_lazy(store, name)");
    }
    return *context_;
  }

  const StorePaths paths_;
  Mutex mutex_;
  CookContext* context_ ENERGON_GUARDED_BY(mutex_);  // null after the call
  std::vector<SampleSource> sources_ ENERGON_GUARDED_BY(mutex_);
};

/// One call of a Python cook function, which may request files of its own dataset and of auxiliary
/// datasets. The Python object may live longer, but then throws Error.
class CookCall {
 public:
  /// Borrows both arguments until end().
  CookCall(CookContext& context, const StorePaths& paths);
  ~CookCall() { end(); }
  CookCall(const CookCall&) = delete;
  CookCall& operator=(const CookCall&) = delete;

  /// The Python object. Requires: the GIL.
  nb::object object() const;
  /// Ends the call. Returns the sources of the files that the function has read.
  std::vector<SampleSource> end();

 private:
  std::shared_ptr<CookFiles> files_;
};

CookCall::CookCall(CookContext& context, const StorePaths& paths)
    : files_(std::make_shared<CookFiles>(context, paths)) {}

nb::object CookCall::object() const { return nb::cast(files_); }

std::vector<SampleSource> CookCall::end() { return files_->end(); }

/// The result of CookFiles::lazy(), held by Python.
struct LazyObject {
  LazyBytes bytes;
};

nb::object decoded(const PartDecoder* decoder, const std::string& name, const SharedBytes& bytes,
                   BufferAllocator& memory) {
  return decoder == nullptr ? bytes_to_python(bytes) : decoder->decode(name, bytes, memory);
}

nb::tuple cook_file(CookFiles& self, const std::optional<std::string>& store,
                    const std::string& name, const PartDecoder* decoder) {
  const auto [bytes, source] = self.get(store, name);
  return nb::make_tuple(decoded(decoder, name, bytes, self.memory()), source_to_python(source));
}

nb::object lazy_file(const LazyObject& self, const std::string& name, const PartDecoder* decoder) {
  const SharedBytes bytes = [&] {
    const ReleaseGil released;
    return self.bytes.get();
  }();
  return decoded(decoder, name, bytes, heap_memory());
}

}  // namespace

std::vector<StorePaths> store_paths_of(const std::vector<PipelineLeaf>& leaves) {
  std::vector<StorePaths> all;
  for (const PipelineLeaf& leaf : leaves) {
    StorePaths& paths = all.emplace_back(StorePaths{.primary = leaf.name, .aux = {}});
    for (const auto& [name, make_store] : leaf.aux) {
      paths.aux[name] = make_store()->path();
    }
  }
  return all;
}

void bind_cook_call(nb::module_& module) {
  nb::class_<LazyObject>(module, "NativeLazy", "A file that the cache of a worker fetches.")
      .def("get", lazy_file, nb::arg("name"), nb::arg("decoder").none(),
           nb::sig("def get(self, name: str, decoder: PartDecoder | None) -> typing.Any"));
  nb::class_<CookFiles>(module, "CookFiles", "The files that a cook function may read.")
      .def_prop_ro("aux_names", &CookFiles::aux_names)
      .def("path", &CookFiles::path, nb::arg("store").none())
      .def("get", cook_file, nb::arg("store").none(), nb::arg("name"), nb::arg("decoder").none(),
           nb::sig("def get(self, store: str | None, name: str, decoder: PartDecoder | None) -> "
                   "tuple[typing.Any, typing.Any]"),
           "A file of an auxiliary dataset, or of the sample's own dataset if store is None.")
      .def(
          "lazy",
          [](CookFiles& self, const std::optional<std::string>& store, const std::string& name) {
            return LazyObject{self.lazy(store, name)};
          },
          nb::arg("store").none(), nb::arg("name"))
      .def(
          "media",
          [](CookFiles& self, const std::optional<std::string>& store, const std::string& name) {
            return media_to_python(self.media(store, name));
          },
          nb::arg("store").none(), nb::arg("name"),
          nb::sig("def media(self, store: str | None, name: str) -> tuple[str, str] | None"));
}

// --- Functions ---

namespace {

using Items = std::shared_ptr<const ItemMaker>;

/// What the functions of the pipeline that runs on this thread may ask for.
struct ActiveCalls {
  nb::handle worker_config = {};    ///< null if no pipeline runs
  std::int64_t logical_shards = 1;  ///< of the rank
  std::int64_t local_index = 0;
  std::optional<std::int64_t> call = std::nullopt;  ///< of the innermost function that runs
};
thread_local ActiveCalls active_calls;

/// A call of a function. If the function may draw random numbers, gives the generators of random,
/// numpy and torch a state that depends only on the item.
class ActiveCall {
 public:
  ActiveCall(const PythonFunction& function, CallContext& context)
      : ActiveCall(function, context, context.call()) {}
  ActiveCall(const PythonFunction& function, CookContext& context)
      : ActiveCall(function, context, context.call().call()) {}
  ~ActiveCall() { active_calls.call = outer_; }
  ActiveCall(const ActiveCall&) = delete;
  ActiveCall& operator=(const ActiveCall&) = delete;

 private:
  template <class Context>
  ActiveCall(const PythonFunction& function, Context& context, std::int64_t call)
      : outer_(std::exchange(active_calls.call, call)) {
    if (function.draws) {
      static constinit PackageAttribute seed("_random", "seed");
      seed(context.rng().seed());
    }
  }

  const std::optional<std::int64_t> outer_;
};

// (worker configuration, number of the call, number of the batch), or None outside functions. The
// numbers are unique in the rank, as those of Energon.
nb::object active_call() {
  const ActiveCalls& active = active_calls;
  const std::optional<std::int64_t> item = ItemNumber::current();
  if (!active.worker_config.is_valid() || !active.call || !item) {
    return nb::none();
  }
  const auto in_rank = [&active](std::int64_t number) {
    return number * active.logical_shards + active.local_index;
  };
  return nb::make_tuple(active.worker_config, in_rank(*active.call), in_rank(*item));
}

/// The outermost stage of a pipeline with Python functions: tells them where they run.
class ActivePipeline final : public PassThrough {
 public:
  ActivePipeline(std::unique_ptr<Dataset> inner, nb::handle worker_config,
                 const PipelineContext& context)
      : PassThrough(std::move(inner)),
        calls_{.worker_config = worker_config,
               .logical_shards = context.config.logical_shards_per_rank(),
               .local_index = context.local_index} {}

  std::optional<Sample> next() override {
    const Scope scope(calls_);
    return PassThrough::next();
  }
  void next_many(std::int64_t count, std::vector<Sample>& samples) override {
    const Scope scope(calls_);
    PassThrough::next_many(count, samples);
  }
  std::int64_t skip(std::int64_t count) override {
    const Scope scope(calls_);
    return PassThrough::skip(count);
  }
  Sample restore_sample(const RestoreKey& key) override {
    const Scope scope(calls_);
    return PassThrough::restore_sample(key);
  }

 private:
  class Scope {
   public:
    explicit Scope(const ActiveCalls& calls) : outer_(std::exchange(active_calls, calls)) {}
    ~Scope() { active_calls = outer_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const ActiveCalls outer_;
  };

  const ActiveCalls calls_;
};

// The fields of the result of a function for the item with these keys.
Mapping fields_of(nb::handle result, const PythonFunction& function, const Keys& keys,
                  BufferAllocator& memory) {
  if (function.hands_on) {
    return fields_of_object(result.ptr());
  }
  if (result.is_none()) {  // a forgotten `return`; a loop over the loader would end
    static constinit PackageAttribute refuse_none("_values", "refuse_none");
    refuse_none(function.callable);
  }
  return ValueReader(memory, function.is_last).read_fields(result, keys);
}

Keys keys_of(std::span<const Sample> samples) {
  Keys keys;
  for (const Sample& sample : samples) {
    keys.append(sample.keys);
  }
  return keys;
}

nb::list items_of(std::span<const Sample> samples, const ItemMaker& items) {
  nb::list list;
  for (const Sample& sample : samples) {
    list.append(items.sample(sample));
  }
  return list;
}

// A Python generator. Its random numbers are seeded again for each output, because other calls may
// run between two outputs.
class PythonGenerator {
 public:
  /// `keys` are the keys of each output.
  PythonGenerator(const nb::object& iterable, const PythonFunction& function, Keys keys,
                  CallContext& context)
      : generator_(nb::steal(PyObject_GetIter(iterable.ptr())).ptr()),
        function_(function),
        keys_(std::move(keys)),
        context_(context) {}

  std::optional<Mapping> next() {
    return call_python([this]() -> std::optional<Mapping> {
      const ActiveCall call(function_, context_);
      PyObject* output = PyIter_Next(generator_.get());
      if (output == nullptr) {
        if (PyErr_Occurred() != nullptr) {
          throw nb::python_error();
        }
        return std::nullopt;
      }
      return fields_of(nb::steal(output), function_, keys_, context_.memory());
    });
  }

 private:
  const OwnedObject generator_;
  const PythonFunction function_;
  const Keys keys_;
  CallContext& context_;
};

nb::object argument_of(const PythonFunction& function, const ItemMaker& items,
                       const Sample& sample) {
  return function.takes_batches ? items.batch(sample) : items.sample(sample);
}

MapFunction map_function(const PythonFunction& function, Items items) {
  return [function, items = std::move(items)](Sample sample, CallContext& context) {
    return call_python([&] {
      const ActiveCall active(function, context);
      const nb::object argument = argument_of(function, *items, sample);
      sample.fields =
          fields_of(function.callable(argument), function, sample.keys, context.memory());
      return std::move(sample);
    });
  };
}

// The stage refuses another number of results.
BatchedMapFunction batched_map_function(const PythonFunction& function, Items items) {
  return [function, items = std::move(items)](std::vector<Sample> samples, CallContext& context) {
    return call_python([&] {
      const ActiveCall active(function, context);
      static constinit PackageAttribute results_of("_values", "results_of");
      const nb::object results = results_of(function.callable(items_of(samples, *items)));
      const bool is_one_each = nb::len(results) == samples.size();
      samples.resize(nb::len(results));
      for (std::size_t i = 0; is_one_each && i < samples.size(); ++i) {
        samples[i].fields =
            fields_of(nb::object(results[i]), function, samples[i].keys, context.memory());
      }
      return std::move(samples);
    });
  };
}

FlatMapFunction flat_map_function(const PythonFunction& function, Items items) {
  return [function, items = std::move(items)](Sample sample, CallContext& context) {
    auto generator = call_python([&] {
      const ActiveCall active(function, context);
      const nb::object iterable = function.callable(argument_of(function, *items, sample));
      return std::make_shared<PythonGenerator>(iterable, function, sample.keys, context);
    });
    return SampleGenerator([generator]() -> std::optional<Sample> {
      auto fields = generator->next();
      return fields
                 ? std::optional(Sample{
                       .keys = {}, .restore_key = {}, .fields = std::move(*fields), .sources = {}})
                 : std::nullopt;
    });
  };
}

SampleStage sample_stage(const PythonFunction& function, const Items& items) {
  if (function.is_generator) {
    return flat_map_function(function, items);
  }
  return map_function(function, items);
}

Mapping call_with_samples(const PythonFunction& function, const ItemMaker& items,
                          std::span<const Sample> samples, CallContext& context) {
  return call_python([&] {
    const ActiveCall active(function, context);
    const nb::list list = items_of(samples, items);
    return fields_of(function.callable(list), function, keys_of(samples), context.memory());
  });
}

BatchFunction batch_function(const PythonFunction& function, Items items) {
  return [function, items = std::move(items)](std::span<Sample> samples, CallContext& context) {
    return call_with_samples(function, *items, samples, context);
  };
}

BatchGenerator batch_generator(const PythonFunction& function, Items items) {
  return [function, items = std::move(items)](std::span<Sample> samples, CallContext& context) {
    auto generator = call_python([&] {
      const ActiveCall active(function, context);
      const nb::object iterable = function.callable(items_of(samples, *items));
      return std::make_shared<PythonGenerator>(iterable, function, keys_of(samples), context);
    });
    return FieldsGenerator([generator] { return generator->next(); });
  };
}

CostFunction cost_function(const PythonFunction& function, Items items) {
  return [function, items = std::move(items)](const Sample& sample, CallContext& context) {
    return call_python([&] {
      const ActiveCall active(function, context);
      static constinit PackageAttribute cost_of("_values", "cost_of");
      return nb::cast<double>(cost_of(function.callable(items->sample(sample))));
    });
  };
}

// Energon's function returns lists of samples, and the core expects their positions. The function
// may return the samples that it received, or their positions.
SelectFunction select_function(const PythonFunction& function, Items items) {
  return
      [function, items = std::move(items)](std::span<const Sample> samples, CallContext& context) {
        return call_python([&] {
          const ActiveCall active(function, context);
          static constinit PackageAttribute positions_of("_values", "positions_of");
          const nb::list list = items_of(samples, *items);
          std::vector<std::vector<std::size_t>> packs;
          // The function may sort its list in place.
          const nb::list copy = nb::steal<nb::list>(PyList_GetSlice(list.ptr(), 0, PY_SSIZE_T_MAX));
          for (const nb::handle pack : nb::object(positions_of(list, function.callable(copy)))) {
            std::vector<std::size_t>& positions = packs.emplace_back();
            for (const nb::handle position : pack) {
              positions.push_back(nb::cast<std::size_t>(position));
            }
          }
          return packs;
        });
      };
}

GroupFunction group_function(const PythonFunction& function, Items items) {
  return [function, items = std::move(items)](const Sample& sample, CallContext& context) {
    return call_python([&] {
      const ActiveCall active(function, context);
      static constinit PackageAttribute group_of("_values", "group_of");
      const nb::object group = group_of(function.callable(items->sample(sample)));
      BatchGroup result{.group = nb::cast<std::string>(group[0])};
      if (!nb::object(group[1]).is_none()) {
        result.batch_size = nb::cast<std::int64_t>(group[1]);
      }
      return result;
    });
  };
}

CookFunction cook_function_of(const PythonFunction& function, Items items) {
  return [function, items = std::move(items)](Sample sample, CookContext& context) {
    return call_python([&] {
      const ActiveCall active(function, context);
      const nb::object argument = items->sample(sample);
      sample.fields =
          fields_of(function.callable(argument), function, sample.keys, context.call().memory());
      return std::move(sample);
    });
  };
}

// Files that the function reads are added to the sources of the sample.
CookFunction cook_function_with_files(const PythonFunction& function, Items items,
                                      std::vector<StorePaths> paths) {
  return [function, items = std::move(items), paths = std::move(paths)](Sample sample,
                                                                        CookContext& context) {
    return call_python([&] {
      const ActiveCall active(function, context);
      const auto leaf = static_cast<std::size_t>(samples_in(sample.restore_key).front().leaf);
      CookCall call(context, paths.at(leaf));
      const nb::object argument = items->sample(sample);
      const nb::object result = function.callable(argument, call.object());
      sample.fields = fields_of(result, function, sample.keys, context.call().memory());
      for (SampleSource& source : call.end()) {
        sample.sources.push_back(std::move(source));
      }
      return std::move(sample);
    });
  };
}

}  // namespace

LoadFunction load_function(const PythonFunction& function, Items items) {
  return map_function(function, std::move(items));
}

PipelineFactory with_active_calls(PipelineFactory pipeline, nb::handle worker_config) {
  return [pipeline = std::move(pipeline), worker_config](const PipelineContext& context) {
    return std::make_unique<ActivePipeline>(pipeline(context), worker_config, context);
  };
}

void bind_active_call(nb::module_& module) {
  module.def("active_call", active_call,
             nb::sig("def active_call() -> tuple[typing.Any, int, int] | None"),
             "In a function: the worker configuration, and the numbers of the call and the batch.");
}

void add_functions(const PythonFunctions& functions, const Items& items,
                   const std::vector<StorePaths>& paths, TaskEncoder& encoder) {
  for (const PythonCooker& cooker : functions.cookers) {
    encoder.cookers.push_back({.cook = cooker.takes_files
                                           ? cook_function_with_files(cooker.function, items, paths)
                                           : cook_function_of(cooker.function, items),
                               .has_subflavors = cooker.has_subflavors});
  }
  if (functions.encode_sample) {
    encoder.encode_sample = sample_stage(functions.encode_sample, items);
  }
  if (functions.encode_samples) {
    encoder.encode_samples = batched_map_function(functions.encode_samples, items);
  }
  if (functions.preencode_sample) {
    encoder.preencode_sample = sample_stage(functions.preencode_sample, items);
  }
  if (functions.sample_cost) {
    encoder.cost = cost_function(functions.sample_cost, items);
  }
  if (functions.select_samples_to_pack) {
    encoder.select_samples_to_pack = select_function(functions.select_samples_to_pack, items);
  }
  if (functions.postencode_sample) {
    encoder.postencode_sample = map_function(functions.postencode_sample, items);
  }
  if (functions.pack_selected_samples) {
    if (functions.pack_selected_samples.is_generator) {
      encoder.pack_selected_samples =
          PackStage(batch_generator(functions.pack_selected_samples, items));
    } else {
      encoder.pack_selected_samples =
          PackStage(PackFunction(batch_function(functions.pack_selected_samples, items)));
    }
  }
  if (functions.batch_group_criterion) {
    encoder.batch_group_criterion = group_function(functions.batch_group_criterion, items);
  }
  if (functions.batch) {
    if (functions.batch.is_generator) {
      encoder.batch = BatchStage(batch_generator(functions.batch, items));
    } else {
      encoder.batch = BatchStage(batch_function(functions.batch, items));
    }
  } else if (auto* batch = std::get_if<BatchFunction>(&encoder.batch)) {
    *batch = marks::batch_of_objects(std::move(*batch));
  }
  if (functions.encode_batch) {
    encoder.encode_batch = sample_stage(functions.encode_batch, items);
  }
}

}  // namespace energon::python
