// The known data sets, which others publish: where they come from, which files they have, what is
// in them, and where they lie on this machine. fetch.h downloads them, verify.h checks them,
// image_datasets.h reads them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/data/images/cifar.h"

namespace lathe::data {

/// A file of a data set as it is read. `md5` is the checksum of its content; if the file on disk is
/// compressed (".gz" at the end of its name), of the inflated content.
struct DatasetFile {
  std::string name;
  int64_t bytes;
  std::string md5;
  bool train;  // true: needed for training; false: for testing
};

enum class Split { kTrain, kTest, kAll };

/// A file that is downloaded: a .tar.gz with files of the set under `folder`, or one file as .gz.
struct Download {
  std::string url;
  int64_t bytes;
  std::string md5;
  std::string folder;  // in the tar archive; empty: the download is itself the file
};

/// What is in a data set.
struct DatasetInfo {
  std::vector<std::string> class_names;
  int64_t channels;
  int64_t side;              // images are side x side
  std::vector<double> mean;  // of x / 255 over the training images, per channel
  std::vector<double> std;
};

/// What people may have of a data set instead of the files that are read.
struct OtherForm {
  std::string name;  // of a file or folder
  std::string what;  // "the version for Python"
};

struct DatasetSource {
  std::string name;   // "cifar10", as --dataset spells it
  std::string title;  // "CIFAR-10"
  // Where its files usually lie below a data root; fetch creates the first of them.
  std::vector<std::string> folders;
  std::vector<Download> downloads;
  std::vector<DatasetFile> files;
  std::vector<OtherForm> other_forms;
  std::string debian_package;  // that contains it; empty if none does
  DatasetInfo info;
};

/// cifar10, cifar100, mnist, fashion-mnist.
LATHE_API const std::vector<DatasetSource>& dataset_sources();

/// The source of the data set `name`.
/// throws: ValueError listing the known names.
LATHE_API const DatasetSource& dataset_source(std::string_view name);
/// The info of the data set `name`.
/// throws: as dataset_source().
LATHE_API const DatasetInfo& dataset_info(std::string_view name);

/// The 20 superclasses of CIFAR-100.
LATHE_API const std::vector<std::string>& cifar100_superclasses();
/// The names of the classes; for cifar100 with `coarse`, of the superclasses.
std::vector<std::string> published_classes(const std::string& name, bool coarse);
/// The format of cifar10 or cifar100.
CifarFormat cifar_format(const std::string& name, bool train, bool coarse);

/// The places searched, in order. Only `data_root` if it is not empty; else only $LATHE_DATA_ROOT
/// if it is set; else ./data, ~/.cache/lathe (or $XDG_CACHE_HOME/lathe) and /usr/share/datasets.
LATHE_API std::vector<std::filesystem::path> data_roots(const std::string& data_root = {});

/// The directory that holds all files of the split: a root itself, or one of the set's folders
/// below it. Empty if there is none, or it cannot be looked at. Looks at names only; verify.h
/// checks the content.
LATHE_API std::optional<std::filesystem::path> find_dataset(const DatasetSource& source,
                                                            const std::string& data_root = {},
                                                            Split split = Split::kAll);

/// "data/cifar-10-batches-py is the version for Python; …": what lies in the places searched
/// instead of the files of the set, and what is wanted. Empty if there is nothing of the kind.
LATHE_API std::string other_form_of(const DatasetSource& source, const std::string& data_root = {});

/// Like find_dataset.
/// throws: DataError naming the places searched, what lies there in another form and, if some files
/// of the set were found, those that are missing there, or why a place cannot be looked at.
LATHE_API std::filesystem::path require_dataset(const DatasetSource& source,
                                                const std::string& data_root = {},
                                                Split split = Split::kAll);

/// `directory`/`name`, or the same with .gz; empty if neither exists.
/// throws: FileError if one cannot be looked at.
LATHE_API std::optional<std::filesystem::path> find_file(const std::filesystem::path& directory,
                                                         const std::string& name);

/// The files that hold the images of one part.
struct PublishedFiles {
  std::vector<std::filesystem::path> images;  // with their labels, unless `labels` is set
  std::filesystem::path labels;               // of IDX files; empty for CIFAR
};

/// The files of cifar10, cifar100, mnist or fashion-mnist; each file plain or as .gz.
/// throws: ValueError unless `name` is one of these four; DataError naming the places searched and
/// what is missing.
PublishedFiles find_published(const std::string& name, const std::filesystem::path& root,
                              bool train);

}  // namespace lathe::data
