// The positions of adapters are a part of the one state: files, merging, rescaling, saving of the
// whole job and automatic checkpoints work for jobs behind adapters, too.

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/flat_state.h"
#include "energon/checkpoint/job_state.h"
#include "energon/checkpoint/loader_state_json.h"
#include "energon/checkpoint/rescale.h"
#include "energon/checkpoint/source_tree.h"
#include "energon/compat/indexed_source.h"
#include "energon/compat/skip_first.h"
#include "energon/compat/stateless_source.h"
#include "energon/distributed/dispatch_adapter.h"
#include "energon/distributed/global_state.h"
#include "energon/distributed/rank_agreement.h"
#include "energon/distributed/shard_adapter.h"
#include "energon/protocols/auto_saver.h"
#include "io/error.h"
#include "tests/energon/distributed/forked_group.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/error_of.h"
#include "wrappers/recipe/pipeline.h"

using energon::AutoSavingLoader;
using energon::BatchSource;
using energon::Comm;
using energon::DispatchAdapter;
using energon::ErrorCode;
using energon::JobLayout;
using energon::LoaderOptions;
using energon::SavableDataLoader;
using energon::SavableDataLoaderState;
using energon::SavableJobState;
using energon::ShardAdapter;
using energon::SingleProcessComm;
using energon::testing::error_of;
using energon::testing::numbered_dataset;
using energon::testing::run_group;
using energon::testing::TempDir;
using energon::testing::texts;

namespace {

using Texts = std::vector<std::string>;

enum class End { kRepeat, kDrop };

// Twelve logical shards of 10 or 11 samples, so that three ranks have 24, 21 and 20 batches.
class Data {
 public:
  static constexpr std::int64_t kSamples = 125;

  std::shared_ptr<SavableDataLoader> loader(int rank, int ranks, std::int64_t batch_size = 2,
                                            int workers = 0) const {
    energon::WorkerConfig layout = {.rank = rank, .world_size = ranks, .num_workers = workers};
    layout.logical_shards = 12;
    layout.division = energon::Division::kEnergon;  // neighbours, so that the ranks differ most
    return std::make_shared<SavableDataLoader>(
        energon::train_pipeline(
            dataset_, {.batch_size = batch_size, .shuffle_buffer_size = 7, .repeat = false}),
        LoaderOptions{.worker_config = layout});
  }
  std::shared_ptr<ShardAdapter> ending(Comm& comm, End end, std::int64_t batch_size = 2,
                                       int workers = 0) const {
    return std::make_shared<ShardAdapter>(
        loader(comm.rank(), comm.size(), batch_size, workers),
        energon::ShardOptions{
            .even_batches = end == End::kRepeat, .drop_last = end == End::kDrop, .comm = &comm});
  }
  std::shared_ptr<DispatchAdapter> dispatching(Comm& comm, int workers = 0) const {
    return std::make_shared<DispatchAdapter>(comm.rank() == 0 ? loader(0, 1, 2, workers) : nullptr,
                                             comm);
  }

 private:
  TempDir folder_;
  std::shared_ptr<const energon::Webdataset> dataset_ =
      numbered_dataset(folder_, {11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 4});
};

Texts take(BatchSource& source, std::size_t limit = SIZE_MAX) {
  Texts batches;
  while (batches.size() < limit) {
    const auto batch = source.next();
    if (!batch) {
      break;
    }
    batches.push_back(fmt::format("{}", fmt::join(batch->keys, ",")));
  }
  return batches;
}

Texts split(const std::string& text, char separator) {
  Texts parts;
  std::string part;
  for (const char c : text) {
    c == separator ? parts.push_back(std::exchange(part, {})) : part.push_back(c);
  }
  parts.push_back(part);
  return parts;
}

// The state of rank `rank` of a job, as text that ranks of a test can hand on.
std::string save(BatchSource& source) { return encode_loader_state(source.save_state_rank()); }

SavableJobState merged(const std::vector<energon::testing::RankReport>& reports) {
  std::vector<SavableDataLoaderState> ranks;
  for (const auto& report : reports) {
    ranks.push_back(energon::decode_loader_state(report.text));
  }
  return merge_states(std::move(ranks));
}

}  // namespace

TEST_CASE("a state with adapters goes through a file, JSON and names, and one without is as before",
          "[protocols]") {
  const Data data;
  SingleProcessComm comm;
  const auto adapter = energon::skip_first_batches(data.ending(comm, End::kRepeat), 2);
  take(*adapter, 3);
  const SavableDataLoaderState state = adapter->save_state_rank();
  REQUIRE(state.adapters.size() == 2);
  const std::string bytes = encode_loader_state(state);
  CHECK(bytes[8] == 3);
  CHECK(energon::decode_loader_state(bytes) == state);
  CHECK(energon::loader_state_from_json(loader_state_to_json(state), "state") == state);
  CHECK(energon::unflatten_state(energon::flatten_state(state), 0) == state);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CHECK_THROWS_AS(energon::decode_loader_state(bytes.substr(0, size)), energon::Error);
  }
  SavableDataLoaderState impossible = state;
  for (const std::int64_t batches : {std::int64_t{1} << 60, std::int64_t{-1}}) {
    CAPTURE(batches);
    impossible.adapters[1].fields[1].second = batches;
    CHECK_THAT(error_of([&] { energon::decode_loader_state(encode_loader_state(impossible)); },
                        ErrorCode::kCorruptData),
               Catch::Contains("state.adapters[1].batches"));
    CHECK_THAT(error_of([&] { energon::from_tree(energon::to_tree(impossible)); },
                        ErrorCode::kCorruptData),
               Catch::Contains("state.adapters[1].batches"));
  }
  CHECK(energon::from_tree(energon::to_tree(state)) == state);
  SavableDataLoaderState bare = state;
  bare.adapters.clear();
  CHECK(encode_loader_state(bare)[8] == 2);

  CHECK_THAT(error_of([&] { data.loader(0, 1)->restore_state_rank(state); }, ErrorCode::kMismatch),
             Catch::Contains("SkipFirst over Shard over Loader"));
  CHECK_THAT(error_of([&] { data.ending(comm, End::kRepeat)->restore_state_rank(bare); },
                      ErrorCode::kMismatch),
             Catch::Contains("it is of a Loader"));
  CHECK_THAT(error_of([&] { data.ending(comm, End::kRepeat)->restore_state_rank(state); },
                      ErrorCode::kMismatch),
             Catch::Contains("it is of a SkipFirst over Shard over Loader"));
}

TEST_CASE("the batches left are counted exactly, after a restore with other batches, too",
          "[protocols]") {
  const Data data;
  for (const std::int64_t batch_size : {2, 3, 5}) {
    for (const std::size_t before : {0, 1, 7, 30}) {
      const auto first = data.loader(0, 1, 4);
      take(*first, before);
      const auto second = data.loader(0, 1, batch_size);
      second->restore_state_rank(first->save_state_rank());
      CAPTURE(batch_size, before);
      take(*second, 2);
      const auto third = data.loader(0, 1, batch_size);
      third->restore_state_rank(second->save_state_rank());
      const std::int64_t left = third->batches_left().value();
      CHECK(second->batches_left() == left);
      CHECK(std::ssize(take(*third)) == left);
      CHECK(third->batches_left() == third->size());
      CHECK(third->epoch() == 1);
    }
  }
}

TEST_CASE("ranks that end together are merged and rescaled at any step, and lose no sample",
          "[protocols][fork]") {
  const Data data;
  for (const End end : {End::kRepeat, End::kDrop}) {
    // The whole epoch of three ranks; how many steps it has.
    const auto whole = run_group(3, [&](Comm& comm) {
      return fmt::format("{}", fmt::join(take(*data.ending(comm, end)), " "));
    });
    const auto steps = std::count(whole[0].text.begin(), whole[0].text.end(), ' ') + 1;
    for (const std::int64_t at : {std::int64_t{0}, std::int64_t{1}, steps / 2, steps - 1, steps}) {
      const auto saved = run_group(3, [&](Comm& comm) {
        const auto source = data.ending(comm, end);
        take(*source, static_cast<std::size_t>(at));
        return save(*source);
      });
      std::multiset<std::string> seen;
      for (const auto& report : whole) {
        const Texts batches = split(report.text, ' ');
        for (std::int64_t step = 0; step < at; ++step) {
          const Texts keys = split(batches[static_cast<std::size_t>(step)], ',');
          seen.insert(keys.begin(), keys.end());
        }
      }
      for (const int ranks : {1, 2, 4}) {
        CAPTURE(static_cast<int>(end), at, ranks);
        const SavableJobState job = rescale(merged(saved), {.world_size = ranks});
        const auto rest = run_group(ranks, [&](Comm& comm) -> std::string {
          const auto source = data.ending(comm, end);
          source->restore_state_rank(state_of_rank(job, comm.rank()));
          const Texts epoch = take(*source);
          const Texts next = take(*source);
          return fmt::format("{}|{}|{}", epoch.size(), next.size(), fmt::join(epoch, " "));
        });
        std::multiset<std::string> all = seen;
        for (const auto& report : rest) {
          const std::size_t bar = report.text.rfind('|');
          // All ranks took the same number of steps, in this epoch and the next.
          REQUIRE(bar != std::string::npos);
          CHECK(report.text.substr(0, bar) == rest[0].text.substr(0, rest[0].text.rfind('|')));
          for (const std::string& batch : split(report.text.substr(bar + 1), ' ')) {
            const Texts keys = split(batch, ',');
            all.insert(keys.begin(), keys.end());
          }
        }
        const std::set<std::string> once(all.begin(), all.end());
        if (at == steps) {
          continue;  // the rest is the next epoch
        }
        if (end == End::kRepeat) {
          CHECK(std::ssize(once) == Data::kSamples);
        } else {
          CHECK(once.size() == all.size());  // none twice
        }
      }
    }
  }
}

TEST_CASE("a rank that repeats batches at the end continues with the repetition that is next",
          "[protocols][fork]") {
  const Data data;
  const auto reports = run_group(3, [&](Comm& comm) -> std::string {
    const Texts epoch = take(*data.ending(comm, End::kRepeat));
    for (std::size_t at = epoch.size() - 5; at < epoch.size(); ++at) {
      const auto first = data.ending(comm, End::kRepeat);
      take(*first, at);
      const auto second = data.ending(comm, End::kRepeat);
      second->restore_state_rank(first->save_state_rank());
      const auto third = data.ending(comm, End::kRepeat);
      const Texts one = take(*second, 1);
      third->restore_state_rank(second->save_state_rank());
      Texts rest = one;
      if (at + 1 < epoch.size()) {
        for (const std::string& batch : take(*third)) {
          rest.push_back(batch);
        }
      } else {
        take(*third);
      }
      if (rest != Texts(epoch.begin() + static_cast<std::ptrdiff_t>(at), epoch.end())) {
        return fmt::format("at {}: {} instead of {}", at, rest, epoch);
      }
    }
    return "exact";
  });
  CHECK(texts(reports) == Texts(3, "exact"));
}

TEST_CASE("repetitions go on where they were after a rescale at the end of an epoch, too",
          "[protocols][fork]") {
  const Data data;
  // Of the three ranks only the first has batches left: one each in logical shards 3, 6 and 9. Of
  // six ranks one gets two of them, so that others repeat two.
  const auto saved = run_group(3, [&](Comm& comm) {
    const auto source = data.ending(comm, End::kRepeat);
    take(*source, 21);
    return save(*source);
  });
  const SavableJobState job = rescale(merged(saved), {.world_size = 6});
  const auto reports = run_group(6, [&](Comm& comm) -> std::string {
    const auto begin = [&] {
      auto source = data.ending(comm, End::kRepeat);
      source->restore_state_rank(state_of_rank(job, comm.rank()));
      return source;
    };
    const Texts epoch = take(*begin());
    if (epoch.size() < 2) {
      return "too short";
    }
    for (std::size_t at = 1; at < epoch.size(); ++at) {
      const auto first = begin();
      take(*first, at);
      const auto second = data.ending(comm, End::kRepeat);
      second->restore_state_rank(first->save_state_rank());
      const Texts rest = take(*second);
      if (rest != Texts(epoch.begin() + static_cast<std::ptrdiff_t>(at), epoch.end())) {
        return fmt::format("at {}: {} instead of {}", at, rest, epoch);
      }
    }
    return "exact";
  });
  CHECK(texts(reports) == Texts(6, "exact"));
}

TEST_CASE("the state of a dispatched job is that of one rank, and any number of ranks continues it",
          "[protocols][fork]") {
  const Data data;
  const TempDir folder;
  const std::string path = folder.file("job.state");
  const auto gathered = [](Comm& comm, const Texts& own) {
    // By step, then by rank: the order in which rank 0 read.
    std::vector<Texts> ranks;
    for (const std::string& text : comm.all_gather(fmt::format("{}", fmt::join(own, " ")))) {
      ranks.push_back(split(text, ' '));
    }
    Texts all;
    for (std::size_t step = 0; step < ranks[0].size(); ++step) {
      for (const Texts& rank : ranks) {
        all.push_back(rank.at(step));
      }
    }
    return all;
  };
  const auto before = run_group(3, [&](Comm& comm) -> std::string {
    const auto source = data.dispatching(comm);
    Texts own = take(*source, 4);
    const auto job = save_state_global(*source, comm, 0);
    if (job.has_value() != (comm.rank() == 0)) {
      return "a job on the wrong rank";
    }
    if (job) {
      if (job->ranks.size() != 1) {
        return "not of one rank";
      }
      write_job_state(path, *job);
    }
    return fmt::format("{}", fmt::join(gathered(comm, own), " "));
  });
  SingleProcessComm alone;
  const Texts reference = take(*data.loader(0, 1));
  CHECK(before[0].text ==
        fmt::format("{}", fmt::join(reference.begin(), reference.begin() + 12, " ")));
  for (const int ranks : {1, 2, 5}) {
    const auto after = run_group(ranks, [&](Comm& comm) -> std::string {
      const auto source = data.dispatching(comm, /*workers=*/2);
      std::optional<SavableJobState> job;
      if (comm.rank() == 0) {
        job = rescale(std::get<SavableJobState>(energon::read_saved_state(path)),
                      {.world_size = 1, .num_workers = 2});
      }
      restore_state_global(*source, comm, job, 0);
      const Texts own = take(*source, 2);
      if (source->epoch() != 0 || source->save_state_rank().step_in_epoch < 1) {
        return "the ranks do not know where they stand";
      }
      return fmt::format("{}", fmt::join(gathered(comm, own), " "));
    });
    CHECK(after[0].text == fmt::format("{}", fmt::join(reference.begin() + 12,
                                                       reference.begin() + 12 + 2 * ranks, " ")));
  }
  const SavableJobState job = std::get<SavableJobState>(energon::read_saved_state(path));
  CHECK_THAT(error_of([&] { rescale(job, {.world_size = 2}); }, ErrorCode::kInvalidArgument),
             Catch::Contains("one rank of this job reads for all"));
}

TEST_CASE("jobs behind adapters save by themselves and continue, on other layouts too",
          "[protocols][fork]") {
  const Data data;
  for (const bool dispatched : {false, true}) {
    const TempDir folder;
    const auto make = [&](Comm& comm) {
      std::shared_ptr<BatchSource> source;
      if (dispatched) {
        source = data.dispatching(comm);
      } else {
        source = data.ending(comm, End::kRepeat);
      }
      return std::make_unique<AutoSavingLoader>(
          source, energon::AutoSaveOptions{
                      .folder = folder.path() + "/saved", .every_batches = 4, .comm = &comm});
    };
    const auto steps = [](AutoSavingLoader& loader, std::size_t count) {
      Texts batches;
      while (batches.size() < count) {
        const auto batch = loader.next();
        batches.push_back(batch ? fmt::format("{}", fmt::join(batch->keys, ",")) : "end");
      }
      return fmt::format("{}", fmt::join(batches, " "));
    };
    // Ten steps, of which the first eight are saved; then the two and the rest again.
    const auto first = run_group(3, [&](Comm& comm) {
      const auto loader = make(comm);
      steps(*loader, 8);
      return steps(*loader, 3);
    });
    const auto second = run_group(3, [&](Comm& comm) -> std::string {
      const auto loader = make(comm);
      if (loader->saver().step() != 8) {
        return fmt::format("step {}", loader->saver().step());
      }
      return steps(*loader, 3);
    });
    CHECK(texts(second) == texts(first));
    const auto other = run_group(2, [&](Comm& comm) -> std::string {
      const auto loader = make(comm);
      steps(*loader, 2);
      return fmt::format("{} {}", loader->saver().step(), loader->source().epoch());
    });
    CHECK(texts(other) == Texts(2, "10 0"));
  }
}

TEST_CASE("what cannot be rescaled or merged behind adapters is refused with the reason",
          "[protocols]") {
  const Data data;
  SingleProcessComm comm;
  const auto skipping = energon::skip_first_batches(data.ending(comm, End::kRepeat), 2);
  const SavableJobState job = energon::merge_states({skipping->save_state_rank()});
  CHECK_THAT(error_of([&] { rescale(job, {.world_size = 2}); }, ErrorCode::kUnsupported),
             Catch::Contains("2 batches still to skip"));
  energon::IndexedSource indexed({.samples = 8, .batch_size = 2},
                                 [](std::span<const std::int64_t>) { return energon::Sample(); });
  const SavableJobState by_number = energon::merge_states({indexed.save_state_rank()});
  CHECK_THAT(error_of([&] { rescale(by_number, {.world_size = 1}); }, ErrorCode::kUnsupported),
             Catch::Contains("(Indexed)"));

  const auto rank = [&](int number) { return data.loader(number, 2)->save_state_rank(); };
  SavableDataLoaderState wrapped = rank(1);
  wrapped.adapters = data.ending(comm, End::kRepeat)->save_state_rank().adapters;
  CHECK_THAT(error_of(
                 [&] {
                   energon::merge_states({rank(0), wrapped});
                 },
                 ErrorCode::kMismatch),
             Catch::Contains("rank 1: adapters: Shard") && Catch::Contains("expected none"));
}

TEST_CASE("ranks that do not read follow the one that does, where it skips, too",
          "[protocols][fork]") {
  const Data data;
  const TempDir folder;
  const std::string path = folder.file("job.state");
  const Texts all = take(*data.loader(0, 1));
  const auto make = [&](Comm& comm) {
    return energon::skip_first_batches(data.dispatching(comm), 3);
  };
  const auto saved = run_group(2, [&](Comm& comm) -> std::string {
    const auto source = make(comm);
    const std::string text = fmt::format("{}", fmt::join(take(*source, 2), " "));
    if (const auto job = save_state_global(*source, comm, 0)) {
      write_job_state(path, *job);
    }
    return text;
  });
  CHECK(texts(saved) == Texts{all[6] + " " + all[8], all[7] + " " + all[9]});
  const auto resumed = run_group(2, [&](Comm& comm) -> std::string {
    const auto source = make(comm);
    std::optional<SavableJobState> job;
    if (comm.rank() == 0) {
      job = std::get<SavableJobState>(energon::read_saved_state(path));
    }
    restore_state_global(*source, comm, job, 0);
    const Texts batches = take(*source, 2);
    return fmt::format("{} {}", fmt::join(batches, " "),
                       source->save_state_rank().step_in_epoch.value());
  });
  CHECK(resumed[0].text.starts_with(all[10] + " " + all[12]));
  CHECK(resumed[1].text == all[11] + " " + all[13] + " 7");
}

TEST_CASE("sources with a position of their own are merged, compared and saved rank by rank",
          "[protocols][fork]") {
  const auto stateless = [](int rank) {
    return energon::StatelessSource(
        [] {
          return [left = 9]() mutable {
            return left-- > 0 ? std::optional<energon::Sample>(energon::Sample()) : std::nullopt;
          };
        },
        rank, 2);
  };
  auto first = stateless(0);
  auto second = stateless(1);
  first.next();
  second.next();
  CHECK(energon::merge_states({second.save_state_rank(), first.save_state_rank()}).ranks.size() ==
        2);
  second.next();
  CHECK_THAT(error_of(
                 [&] {
                   energon::merge_states({second.save_state_rank(), first.save_state_rank()});
                 },
                 ErrorCode::kMismatch),
             Catch::Contains("different steps of epoch 0"));

  const auto reports = run_group(2, [](Comm& comm) -> std::string {
    energon::IndexedSource source(
        {.samples = 8, .batch_size = comm.rank() + 1, .processes = 2, .process = comm.rank()},
        [](std::span<const std::int64_t>) { return energon::Sample(); });
    try {
      check_ranks_agree(source, comm);
      return "agree";
    } catch (const energon::Error& error) {
      return error.what();
    }
  });
  for (const auto& report : reports) {
    CHECK_THAT(report.text, Catch::Contains("batch_size: 2, expected 1"));
  }
}

TEST_CASE("adapters over adapters know how many batches are left", "[protocols]") {
  const Data data;
  SingleProcessComm comm;
  const auto inner = std::make_shared<ShardAdapter>(data.loader(0, 1));
  take(*inner, 5);
  inner->end_of_dataloader();  // draws one ahead
  CHECK(inner->batches_left() == inner->size().value() - 5);
  {
    ShardAdapter at_end(data.loader(0, 1));
    take(at_end, static_cast<std::size_t>(at_end.size().value()));
    CHECK(at_end.end_of_dataloader());  // the loader is in the next epoch
    CHECK(at_end.batches_left() == 0);
  }
  ShardAdapter outer(inner, {.even_batches = true, .comm = &comm});
  const auto skipping = energon::skip_first_batches(inner, 2);
  CHECK(skipping->batches_left() == inner->size().value() - 7);
  CHECK(std::ssize(take(outer)) == inner->size().value() - 5);
}
