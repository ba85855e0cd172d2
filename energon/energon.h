// Everything a training job needs, in one header. Link the target energon::energon.
//
//   const PipelineFactory pipeline = train_dataset("recipe.yaml", {}, {.batch_size = 64});
//   SavableDataLoader loader(pipeline, {.worker_config = {.num_workers = 2}});
//   while (const auto batch = loader.next()) { … }
//
// Not included: torch tensors over a batch (energon/torch/tensor.h, energon::torch), communication
// between ranks (energon/distributed, energon::distributed), states of Megatron-Energon
// (energon/megatron, energon::megatron), and what other systems have, such as adapters that end an
// epoch on all ranks together (protocols, energon::protocols).

#pragma once

#include "energon/autosave/auto_saver.h"
#include "energon/checkpoint/job_state.h"
#include "energon/checkpoint/loader_state.h"
#include "energon/checkpoint/rescale.h"
#include "energon/loader/basic_data_loader.h"
#include "energon/loader/savable_data_loader.h"
#include "energon/sample/sample.h"
#include "energon/stage/call_context.h"
#include "io/error.h"
#include "wrappers/batching/batch_functions.h"
#include "wrappers/batching/tensor_batch.h"
#include "wrappers/recipe/open_data.h"
#include "wrappers/recipe/pipeline.h"
#include "wrappers/recipe/task_encoder.h"
