// Lathe from C, and from every language that calls C: Fortran (c/lathe.f90), Python's ctypes, Julia.
//   lathe_model* model = NULL;
//   if (lathe_model_load("network.pt2", &model) != LATHE_OK) puts(lathe_last_error());
//
// What holds for all functions:
//   - A function that can fail returns a lathe_status and gives its result through its last
//     parameter. If it fails, the result is NULL or 0, and lathe_last_error() says what was wrong.
//     Nothing else has changed, but for one case: a forward pass in training mode, or a training
//     step, that fails on the way may have changed gradients, running statistics and the random
//     generator.
//   - No C++ exception leaves a function. A NULL pointer, a handle that was freed, or a handle of
//     another kind is LATHE_BAD_HANDLE or LATHE_BAD_VALUE, not a crash.
//   - A handle is made by one function and freed by lathe_*_free(). What a tensor, model or
//     optimiser needs of other handles stays alive, so handles may be freed in any order.
//   - Texts are UTF-8. A text that a function returns is valid until the next call with the same
//     handle, or as long as the function says.
//   - Several threads may call at the same time with different handles. One handle is for one
//     thread at a time. Errors are kept for each thread.
// This interface only grows. LATHE_C_ABI stays the same as long as programs compiled with an older
// header run with a newer library.
#ifndef LATHE_C_H
#define LATHE_C_H

#include <stddef.h>
#include <stdint.h>

#define LATHE_C_ABI 1

// As LATHE_API of core/config.h, which C cannot include.
#if defined(__GNUC__)
#  define LATHE_C_API __attribute__((visibility("default")))
#else
#  define LATHE_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lathe_tensor lathe_tensor;
typedef struct lathe_model lathe_model;
typedef struct lathe_optimizer lathe_optimizer;

// --- errors ---------------------------------------------------------------------------------------

typedef int32_t lathe_status;
enum {
  LATHE_OK = 0,
  LATHE_BAD_HANDLE = 1,  // NULL, freed, or of another kind
  LATHE_BAD_VALUE = 2,   // an argument or option that is not allowed
  LATHE_BAD_SHAPE = 3,   // sizes that do not fit
  LATHE_BAD_DTYPE = 4,   // an element type that the function does not accept
  LATHE_BAD_DEVICE = 5,  // wrong, mixed or missing device
  LATHE_BAD_INDEX = 6,   // an index or dimension out of range
  LATHE_BAD_STATE = 7,   // calls in the wrong order, as a second backward pass
  LATHE_BAD_DATA = 8,    // the content of a file
  LATHE_BAD_FILE = 9,    // opening, reading or writing a file
  LATHE_OUT_OF_MEMORY = 10,
  LATHE_GPU_FAILED = 11,  // a CUDA library
  LATHE_FAILED = 12       // anything else
};

/// The name of a status: "LATHE_BAD_SHAPE"; "unknown status" for any other number. Valid for ever.
LATHE_C_API const char* lathe_status_name(lathe_status status);
/// The error message of the last failed call in this thread: a sentence with the values that were
/// wrong. "" before the first failure. Valid until the next failure in this thread.
LATHE_C_API const char* lathe_last_error(void);

// --- the library ----------------------------------------------------------------------------------

/// The version of the library, "0.1.0". Valid for ever.
LATHE_C_API const char* lathe_version(void);
/// LATHE_C_ABI of the library that runs.
LATHE_C_API int32_t lathe_abi_version(void);
/// The number of threads that compute. At the start OMP_NUM_THREADS says it, else the number of
/// processors that the process may use.
LATHE_C_API int32_t lathe_threads(void);
/// Sets the number of threads that compute, from 1 on.
LATHE_C_API lathe_status lathe_set_threads(int32_t count);
/// Seeds all random numbers: initial values, dropout.
LATHE_C_API lathe_status lathe_seed(uint64_t seed);
/// The number of GPUs that this process can use. 0 also in a build without GPUs.
LATHE_C_API int32_t lathe_gpus(void);

// --- tensors --------------------------------------------------------------------------------------

typedef int32_t lathe_dtype;
enum {
  LATHE_BOOL = 0,  // one byte
  LATHE_U8 = 1,
  LATHE_I8 = 2,
  LATHE_I16 = 3,
  LATHE_I32 = 4,
  LATHE_I64 = 5,
  LATHE_F16 = 6,
  LATHE_BF16 = 7,
  LATHE_F32 = 8,
  LATHE_F64 = 9
};

/// A device is LATHE_CPU or the number of a GPU, from 0 on.
#define LATHE_CPU (-1)

/// A tensor of zeros on the CPU.
///   sizes  ndim numbers, each 0 or more; NULL if ndim is 0
LATHE_C_API lathe_status lathe_tensor_zeros(lathe_dtype dtype, int32_t ndim, const int64_t* sizes,
                                            lathe_tensor** out);
/// A tensor over the caller's memory, without a copy: each side sees what the other writes. The
/// memory must live until the tensor and everything that was made from it without a copy is freed;
/// `release(context)`, if given, is called then, perhaps by another thread.
///   strides  for each dimension the elements from one index to the next, 0 or more. NULL: the last
///            dimension is dense, as in C. Fortran's order is 1, sizes[0], sizes[0]·sizes[1], …
/// If it fails, `release` is not called.
LATHE_C_API lathe_status lathe_tensor_wrap(void* data, lathe_dtype dtype, int32_t ndim,
                                           const int64_t* sizes, const int64_t* strides,
                                           void (*release)(void* context), void* context,
                                           lathe_tensor** out);
/// A tensor over memory of another library: `managed` is a DLManagedTensorVersioned (DLPack 1.0),
/// or with `versioned` 0 a DLManagedTensor. If it fails, `managed` still belongs to the caller.
LATHE_C_API lathe_status lathe_tensor_from_dlpack(void* managed, int32_t versioned,
                                                  lathe_tensor** out);
/// Exports a tensor without a copy, as lathe_tensor_from_dlpack() takes it. Its deleter must be
/// called once; the tensor's handle may be freed before. Do not write through it into a parameter,
/// as with lathe_tensor_data().
LATHE_C_API lathe_status lathe_tensor_to_dlpack(const lathe_tensor* tensor, int32_t versioned,
                                                void** out);
/// Writes the elements of `from` into `to`, which has the same sizes. dtype, device and strides may
/// differ.
LATHE_C_API lathe_status lathe_tensor_copy(const lathe_tensor* from, lathe_tensor* to);
/// The tensor on this device in this dtype: a copy, or the same memory if it is there already.
LATHE_C_API lathe_status lathe_tensor_to(const lathe_tensor* tensor, int32_t device,
                                         lathe_dtype dtype, lathe_tensor** out);
LATHE_C_API lathe_status lathe_tensor_dtype(const lathe_tensor* tensor, lathe_dtype* out);
LATHE_C_API lathe_status lathe_tensor_device(const lathe_tensor* tensor, int32_t* out);
LATHE_C_API lathe_status lathe_tensor_ndim(const lathe_tensor* tensor, int32_t* out);
/// The size of a dimension; -1 is the last one.
LATHE_C_API lathe_status lathe_tensor_size(const lathe_tensor* tensor, int32_t dim, int64_t* out);
/// The stride of a dimension, in elements; -1 is the last one.
LATHE_C_API lathe_status lathe_tensor_stride(const lathe_tensor* tensor, int32_t dim, int64_t* out);
/// The first element, in the memory of the tensor's device. NULL for a tensor without elements.
/// Valid until the handle is freed. Do not write through it into a parameter, of which a model may
/// hold copies in other layouts: use lathe_tensor_copy().
LATHE_C_API lathe_status lathe_tensor_data(const lathe_tensor* tensor, void** out);
/// Sets whether backward passes compute the gradient of this tensor, for example of an input. The
/// tensor must be floating.
LATHE_C_API lathe_status lathe_tensor_require_gradient(lathe_tensor* tensor, int32_t on);
/// The gradient that backward passes have added up. LATHE_BAD_STATE if there is none.
LATHE_C_API lathe_status lathe_tensor_gradient(const lathe_tensor* tensor, lathe_tensor** out);
/// Runs the backward pass from a result of lathe_model_forward() or lathe_loss(): adds the gradient
/// of each parameter, and of inputs that require one, to those they have.
///   gradient  of the same sizes: the derivative of your loss by `tensor`. NULL if `tensor` is a loss
LATHE_C_API lathe_status lathe_tensor_backward(lathe_tensor* tensor, const lathe_tensor* gradient);
/// NULL is allowed.
LATHE_C_API lathe_status lathe_tensor_free(lathe_tensor* tensor);

// --- models ---------------------------------------------------------------------------------------

/// Loads a model from a file, onto the CPU:
///   - .pt2, of PyTorch's torch.export.save: it trains and evaluates. It begins in the mode in which
///     it was exported
///   - .onnx and .lathe: graphs; they evaluate and do not train
LATHE_C_API lathe_status lathe_model_load(const char* path, lathe_model** out);
/// How many tensors a forward pass takes and gives.
LATHE_C_API lathe_status lathe_model_inputs(const lathe_model* model, int32_t* out);
LATHE_C_API lathe_status lathe_model_outputs(const lathe_model* model, int32_t* out);
/// The name of an input or output in the file. Valid until the model is freed.
LATHE_C_API lathe_status lathe_model_input_name(const lathe_model* model, int32_t number,
                                                const char** out);
LATHE_C_API lathe_status lathe_model_output_name(const lathe_model* model, int32_t number,
                                                 const char** out);
/// How many parameters the model has, including frozen ones. 0 for a graph.
LATHE_C_API lathe_status lathe_model_parameters(const lathe_model* model, int32_t* out);
/// A parameter and its name, "layer1.0.conv1.weight". The tensor is the model's own: what
/// lathe_tensor_copy() writes into it changes the model. The name is valid until the model is freed.
LATHE_C_API lathe_status lathe_model_parameter(const lathe_model* model, int32_t number,
                                               const char** name, lathe_tensor** out);
/// Moves the model to a device. Make optimisers of the model after this call.
LATHE_C_API lathe_status lathe_model_to(lathe_model* model, int32_t device);
/// Chooses training mode (1) or evaluation mode (0), which batch norm and dropout follow. A graph
/// has only evaluation mode.
LATHE_C_API lathe_status lathe_model_set_training(lathe_model* model, int32_t on);
/// Runs the model.
///   inputs    `n_inputs` tensors on the model's device, in the order of their numbers
///   outputs   gets `n_outputs` new handles; it may be the same array as `inputs`
///   gradients 1: results can be given to lathe_loss() and lathe_tensor_backward(); this keeps
///             memory until they are freed. 0: faster, for evaluation
LATHE_C_API lathe_status lathe_model_forward(lathe_model* model, int32_t gradients,
                                             int32_t n_inputs, const lathe_tensor* const* inputs,
                                             int32_t n_outputs, lathe_tensor** outputs);
/// Reads weights from a .safetensors file, a checkpoint, a .npz or a PyTorch .pth file. All of the
/// model's entries must be in it.
LATHE_C_API lathe_status lathe_model_load_weights(lathe_model* model, const char* path);
/// Writes the model's present state. An old file is replaced only by a complete new one.
///   - .pt2: the whole program, for torch.export.load and lathe_model_load()
///   - .safetensors: the weights with PyTorch's names, for lathe_model_load_weights()
LATHE_C_API lathe_status lathe_model_save(const lathe_model* model, const char* path);
/// NULL is allowed.
LATHE_C_API lathe_status lathe_model_free(lathe_model* model);

// --- training -------------------------------------------------------------------------------------

/// The mean loss of a batch as a tensor of one element.
///   name    "cross_entropy": output scores [N,C,…], target class numbers i64 [N,…] or probabilities
///           "mse", "l1", "huber", "smooth_l1", "bce_with_logits": target of the sizes of output
LATHE_C_API lathe_status lathe_loss(const char* name, const lathe_tensor* output,
                                    const lathe_tensor* target, lathe_tensor** out);
/// An optimiser of all parameters of a model.
///   name     "sgd", "adam", "adamw", "rmsprop", "lars", "lamb", "novograd", "adagrad", "adadelta",
///            "adamax", "nadam", "radam", "lion", "adafactor" or "muon", which leaves all but hidden
///            matrices to AdamW
///   options  "lr=0.1 momentum=0.9 weight_decay=5e-4": the options' names in C++ and PyTorch; beta1
///            and beta2 for betas. NULL or "": PyTorch's values
LATHE_C_API lathe_status lathe_optimizer_new(lathe_model* model, const char* name,
                                             const char* options, lathe_optimizer** out);
LATHE_C_API lathe_status lathe_optimizer_lr(const lathe_optimizer* optimizer, double* out);
LATHE_C_API lathe_status lathe_optimizer_set_lr(lathe_optimizer* optimizer, double lr);
/// Updates the parameters that have a gradient.
LATHE_C_API lathe_status lathe_optimizer_step(lathe_optimizer* optimizer);
/// Drops the gradients. Call it between two steps: backward passes add to what is there.
LATHE_C_API lathe_status lathe_optimizer_zero_gradients(lathe_optimizer* optimizer);
/// NULL is allowed.
LATHE_C_API lathe_status lathe_optimizer_free(lathe_optimizer* optimizer);
/// One training step on a batch: drops the gradients, runs the model, computes the loss of its first
/// output, runs the backward pass, updates. The model's mode is not changed. The optimiser must be
/// one of this model.
///   loss  a name of lathe_loss()
///   out   the loss before the update; NULL if it is not wanted
LATHE_C_API lathe_status lathe_train_step(lathe_model* model, lathe_optimizer* optimizer,
                                          const char* loss, int32_t n_inputs,
                                          const lathe_tensor* const* inputs,
                                          const lathe_tensor* target, double* out);
/// Writes everything that decides the next step: weights, running statistics, the optimiser's state
/// and the random generators. An old file is replaced only by a complete new one.
LATHE_C_API lathe_status lathe_checkpoint_save(const char* path, const lathe_model* model,
                                               const lathe_optimizer* optimizer);
/// Reads what lathe_checkpoint_save() wrote. Training then continues with the same results, bit for
/// bit.
LATHE_C_API lathe_status lathe_checkpoint_load(const char* path, lathe_model* model,
                                               lathe_optimizer* optimizer);

#ifdef __cplusplus
}
#endif

#endif
