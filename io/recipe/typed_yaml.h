// What a dataset.yaml says of typed samples: checked when it is read, and written for a new one.

#pragma once

#include <string>

#include "io/recipe/dataset_yaml.h"
#include "io/recipe/field_map.h"

namespace energon {

/// The samples that `yaml` asks for; crude ones if it names no type. Throws Error that names the
/// file: kInvalidArgument for a type that is none of ours, unknown and missing fields, and a wrong
/// expression; kUnsupported for a sample_loader, which is a Python function.
TypedSamples typed_samples_of(const DatasetYaml& yaml);

/// A dataset.yaml for these samples, as the prepare of Energon 7.4.1 writes it. Throws as
/// validate().
std::string dataset_yaml_of(const TypedSamples& samples);

}  // namespace energon
