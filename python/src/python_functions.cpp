#include "python/src/python_functions.h"

#include <nanobind/stl/string.h>

#include <optional>
#include <span>
#include <utility>

#include "energon/sample/restore_key.h"
#include "python/src/gil.h"
#include "python/src/held_object.h"
#include "python/src/marked_values.h"
#include "python/src/python_failure.h"
#include "python/src/python_names.h"
#include "python/src/python_to_value.h"

namespace nb = nanobind;

namespace energon::python {
namespace {

using Items = std::shared_ptr<const ItemMaker>;

// Gives the generators of random, numpy and torch a state that depends on the item only, if
// `function` may draw from them.
void seed_random(const PythonFunction& function, CallRng& rng) {
  if (!function.draws) {
    return;
  }
  static constinit PackageAttribute seed("_random", "seed");
  seed(rng.seed());
}

// The fields of what a function returned for the item with these keys.
Mapping fields_of(nb::handle result, const PythonFunction& function, const Keys& keys,
                  BufferAllocator& memory) {
  if (function.hands_on) {
    return held_fields(result.ptr());
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

// A generator of Python. Its random numbers are seeded again for each output, because other calls
// come between two outputs.
class PythonGenerator {
 public:
  /// `keys`: those of each output.
  PythonGenerator(const nb::object& iterable, const PythonFunction& function, Keys keys,
                  CallContext& context)
      : generator_(nb::steal(PyObject_GetIter(iterable.ptr())).ptr()),
        function_(function),
        keys_(std::move(keys)),
        context_(context) {}

  std::optional<Mapping> next() {
    return call_python([this]() -> std::optional<Mapping> {
      seed_random(function_, context_.rng());
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
      seed_random(function, context.rng());
      const nb::object argument = argument_of(function, *items, sample);
      sample.fields =
          fields_of(function.callable(argument), function, sample.keys, context.memory());
      return std::move(sample);
    });
  };
}

FlatMapFunction flat_map_function(const PythonFunction& function, Items items) {
  return [function, items = std::move(items)](Sample sample, CallContext& context) {
    auto generator = call_python([&] {
      seed_random(function, context.rng());
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
    seed_random(function, context.rng());
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
      seed_random(function, context.rng());
      const nb::object iterable = function.callable(items_of(samples, *items));
      return std::make_shared<PythonGenerator>(iterable, function, keys_of(samples), context);
    });
    return FieldsGenerator([generator] { return generator->next(); });
  };
}

// Energon's function returns lists of samples; the core wants their positions. The function may
// return the samples that it got, or their positions.
SelectFunction select_function(const PythonFunction& function, Items items) {
  return [function, items = std::move(items)](std::span<const Sample> samples,
                                              CallContext& context) {
    return call_python([&] {
      seed_random(function, context.rng());
      static constinit PackageAttribute positions_of("_values", "positions_of");
      const nb::list list = items_of(samples, *items);
      std::vector<std::vector<std::size_t>> packs;
      // The function may sort its list in place.
      const nb::list given = nb::steal<nb::list>(PyList_GetSlice(list.ptr(), 0, PY_SSIZE_T_MAX));
      for (const nb::handle pack : nb::object(positions_of(list, function.callable(given)))) {
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
      seed_random(function, context.rng());
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
      seed_random(function, context.rng());
      const nb::object argument = items->sample(sample);
      sample.fields =
          fields_of(function.callable(argument), function, sample.keys, context.call().memory());
      return std::move(sample);
    });
  };
}

// The files that it reads are listed in the sources of the sample.
CookFunction cook_function_with_files(const PythonFunction& function, Items items,
                                      std::vector<StorePaths> paths) {
  return [function, items = std::move(items), paths = std::move(paths)](Sample sample,
                                                                        CookContext& context) {
    return call_python([&] {
      seed_random(function, context.rng());
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
  if (functions.preencode_sample) {
    encoder.preencode_sample = sample_stage(functions.preencode_sample, items);
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
