! Lathe from Fortran: the functions of lathe_c.h, which has their contracts, under the same names.
!
!   use lathe
!   type(c_ptr) :: model, input
!   real(real64), target :: u(64, 1)
!   call lathe_check(lathe_model_load("network.pt2"//c_null_char, model))
!   call lathe_check(lathe_wrap(u, input))
!
! Texts that go to Lathe end in c_null_char. Numbers of tensors and dimensions begin at 0, as in C.
! Compile this file with your program: compilers do not read each other's module files.
module lathe
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit, int32, int64, real32, real64
  implicit none
  public

  enum, bind(c)
    enumerator :: LATHE_OK = 0, LATHE_BAD_HANDLE, LATHE_BAD_VALUE, LATHE_BAD_SHAPE, LATHE_BAD_DTYPE, &
                  LATHE_BAD_DEVICE, LATHE_BAD_INDEX, LATHE_BAD_STATE, LATHE_BAD_DATA, LATHE_BAD_FILE, &
                  LATHE_OUT_OF_MEMORY, LATHE_GPU_FAILED, LATHE_FAILED
  end enum
  enum, bind(c)
    enumerator :: LATHE_BOOL = 0, LATHE_U8, LATHE_I8, LATHE_I16, LATHE_I32, LATHE_I64, LATHE_F16, LATHE_BF16, &
                  LATHE_F32, LATHE_F64
  end enum
  integer(c_int32_t), parameter :: LATHE_CPU = -1

  ! A tensor over an array, without a copy: lathe_wrap(array, tensor). The array must have the
  ! attribute target, be contiguous, and live as long as the tensor. The tensor has the array's sizes
  ! in the same order, x(i, j) is its element [i-1, j-1].
  interface lathe_wrap
    module procedure wrap_real32_1, wrap_real32_2, wrap_real32_3, wrap_real32_4
    module procedure wrap_real64_1, wrap_real64_2, wrap_real64_3, wrap_real64_4
    module procedure wrap_int32_1, wrap_int32_2, wrap_int32_3, wrap_int32_4
    module procedure wrap_int64_1, wrap_int64_2, wrap_int64_3, wrap_int64_4
  end interface
  private :: wrap, wrap_real32_1, wrap_real32_2, wrap_real32_3, wrap_real32_4, &
             wrap_real64_1, wrap_real64_2, wrap_real64_3, wrap_real64_4, &
             wrap_int32_1, wrap_int32_2, wrap_int32_3, wrap_int32_4, &
             wrap_int64_1, wrap_int64_2, wrap_int64_3, wrap_int64_4

  interface
    function lathe_status_name(status) bind(c) result(value)
      import
      integer(c_int), value :: status
      type(c_ptr) :: value
    end function
    function lathe_last_error() bind(c) result(value)
      import
      type(c_ptr) :: value
    end function
    function lathe_version() bind(c) result(value)
      import
      type(c_ptr) :: value
    end function
    function lathe_abi_version() bind(c) result(value)
      import
      integer(c_int32_t) :: value
    end function
    function lathe_threads() bind(c) result(value)
      import
      integer(c_int32_t) :: value
    end function
    function lathe_set_threads(count) bind(c) result(status)
      import
      integer(c_int32_t), value :: count
      integer(c_int) :: status
    end function
    function lathe_seed(seed) bind(c) result(status)
      import
      integer(c_int64_t), value :: seed
      integer(c_int) :: status
    end function
    function lathe_gpus() bind(c) result(value)
      import
      integer(c_int32_t) :: value
    end function
    function lathe_tensor_zeros(dtype, ndim, sizes, out) bind(c) result(status)
      import
      integer(c_int), value :: dtype
      integer(c_int32_t), value :: ndim
      integer(c_int64_t), intent(in) :: sizes(*)
      type(c_ptr), intent(out) :: out
      integer(c_int) :: status
    end function
    function lathe_tensor_wrap(data, dtype, ndim, sizes, strides, release, context, out) bind(c) result(status)
      import
      type(c_ptr), value :: data
      integer(c_int), value :: dtype
      integer(c_int32_t), value :: ndim
      integer(c_int64_t), intent(in) :: sizes(*)
      integer(c_int64_t), intent(in) :: strides(*)
      type(c_funptr), value :: release
      type(c_ptr), value :: context
      type(c_ptr), intent(out) :: out
      integer(c_int) :: status
    end function
    function lathe_tensor_from_dlpack(managed, versioned, out) bind(c) result(status)
      import
      type(c_ptr), value :: managed
      integer(c_int32_t), value :: versioned
      type(c_ptr), intent(out) :: out
      integer(c_int) :: status
    end function
    function lathe_tensor_to_dlpack(tensor, versioned, out) bind(c) result(status)
      import
      type(c_ptr), value :: tensor
      integer(c_int32_t), value :: versioned
      type(c_ptr), intent(out) :: out
      integer(c_int) :: status
    end function
    function lathe_tensor_copy(from, to) bind(c) result(status)
      import
      type(c_ptr), value :: from
      type(c_ptr), value :: to
      integer(c_int) :: status
    end function
    function lathe_tensor_to(tensor, device, dtype, out) bind(c) result(status)
      import
      type(c_ptr), value :: tensor
      integer(c_int32_t), value :: device
      integer(c_int), value :: dtype
      type(c_ptr), intent(out) :: out
      integer(c_int) :: status
    end function
    function lathe_tensor_dtype(tensor, out) bind(c) result(status)
      import
      type(c_ptr), value :: tensor
      integer(c_int), intent(out) :: out
      integer(c_int) :: status
    end function
    function lathe_tensor_device(tensor, out) bind(c) result(status)
      import
      type(c_ptr), value :: tensor
      integer(c_int32_t), intent(out) :: out
      integer(c_int) :: status
    end function
    function lathe_tensor_ndim(tensor, out) bind(c) result(status)
      import
      type(c_ptr), value :: tensor
      integer(c_int32_t), intent(out) :: out
      integer(c_int) :: status
    end function
    function lathe_tensor_size(tensor, dim, out) bind(c) result(status)
      import
      type(c_ptr), value :: tensor
      integer(c_int32_t), value :: dim
      integer(c_int64_t), intent(out) :: out
      integer(c_int) :: status
    end function
    function lathe_tensor_stride(tensor, dim, out) bind(c) result(status)
      import
      type(c_ptr), value :: tensor
      integer(c_int32_t), value :: dim
      integer(c_int64_t), intent(out) :: out
      integer(c_int) :: status
    end function
    function lathe_tensor_data(tensor, out) bind(c) result(status)
      import
      type(c_ptr), value :: tensor
      type(c_ptr), intent(out) :: out
      integer(c_int) :: status
    end function
    function lathe_tensor_require_gradient(tensor, on) bind(c) result(status)
      import
      type(c_ptr), value :: tensor
      integer(c_int32_t), value :: on
      integer(c_int) :: status
    end function
    function lathe_tensor_gradient(tensor, out) bind(c) result(status)
      import
      type(c_ptr), value :: tensor
      type(c_ptr), intent(out) :: out
      integer(c_int) :: status
    end function
    function lathe_tensor_backward(tensor, gradient) bind(c) result(status)
      import
      type(c_ptr), value :: tensor
      type(c_ptr), value :: gradient
      integer(c_int) :: status
    end function
    function lathe_tensor_free(tensor) bind(c) result(status)
      import
      type(c_ptr), value :: tensor
      integer(c_int) :: status
    end function
    function lathe_model_load(path, out) bind(c) result(status)
      import
      character(kind=c_char), intent(in) :: path(*)
      type(c_ptr), intent(out) :: out
      integer(c_int) :: status
    end function
    function lathe_model_inputs(model, out) bind(c) result(status)
      import
      type(c_ptr), value :: model
      integer(c_int32_t), intent(out) :: out
      integer(c_int) :: status
    end function
    function lathe_model_outputs(model, out) bind(c) result(status)
      import
      type(c_ptr), value :: model
      integer(c_int32_t), intent(out) :: out
      integer(c_int) :: status
    end function
    function lathe_model_input_name(model, number, out) bind(c) result(status)
      import
      type(c_ptr), value :: model
      integer(c_int32_t), value :: number
      type(c_ptr), intent(out) :: out
      integer(c_int) :: status
    end function
    function lathe_model_output_name(model, number, out) bind(c) result(status)
      import
      type(c_ptr), value :: model
      integer(c_int32_t), value :: number
      type(c_ptr), intent(out) :: out
      integer(c_int) :: status
    end function
    function lathe_model_parameters(model, out) bind(c) result(status)
      import
      type(c_ptr), value :: model
      integer(c_int32_t), intent(out) :: out
      integer(c_int) :: status
    end function
    function lathe_model_parameter(model, number, name, out) bind(c) result(status)
      import
      type(c_ptr), value :: model
      integer(c_int32_t), value :: number
      type(c_ptr), intent(out) :: name
      type(c_ptr), intent(out) :: out
      integer(c_int) :: status
    end function
    function lathe_model_to(model, device) bind(c) result(status)
      import
      type(c_ptr), value :: model
      integer(c_int32_t), value :: device
      integer(c_int) :: status
    end function
    function lathe_model_set_training(model, on) bind(c) result(status)
      import
      type(c_ptr), value :: model
      integer(c_int32_t), value :: on
      integer(c_int) :: status
    end function
    function lathe_model_forward(model, gradients, n_inputs, inputs, n_outputs, outputs) bind(c) result(status)
      import
      type(c_ptr), value :: model
      integer(c_int32_t), value :: gradients
      integer(c_int32_t), value :: n_inputs
      type(c_ptr), intent(in) :: inputs(*)
      integer(c_int32_t), value :: n_outputs
      type(c_ptr), intent(inout) :: outputs(*)
      integer(c_int) :: status
    end function
    function lathe_model_load_weights(model, path) bind(c) result(status)
      import
      type(c_ptr), value :: model
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int) :: status
    end function
    function lathe_model_save(model, path) bind(c) result(status)
      import
      type(c_ptr), value :: model
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int) :: status
    end function
    function lathe_model_free(model) bind(c) result(status)
      import
      type(c_ptr), value :: model
      integer(c_int) :: status
    end function
    function lathe_loss(name, output, target, out) bind(c) result(status)
      import
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), value :: output
      type(c_ptr), value :: target
      type(c_ptr), intent(out) :: out
      integer(c_int) :: status
    end function
    function lathe_optimizer_new(model, name, options, out) bind(c) result(status)
      import
      type(c_ptr), value :: model
      character(kind=c_char), intent(in) :: name(*)
      character(kind=c_char), intent(in) :: options(*)
      type(c_ptr), intent(out) :: out
      integer(c_int) :: status
    end function
    function lathe_optimizer_lr(optimizer, out) bind(c) result(status)
      import
      type(c_ptr), value :: optimizer
      real(c_double), intent(out) :: out
      integer(c_int) :: status
    end function
    function lathe_optimizer_set_lr(optimizer, lr) bind(c) result(status)
      import
      type(c_ptr), value :: optimizer
      real(c_double), value :: lr
      integer(c_int) :: status
    end function
    function lathe_optimizer_step(optimizer) bind(c) result(status)
      import
      type(c_ptr), value :: optimizer
      integer(c_int) :: status
    end function
    function lathe_optimizer_zero_gradients(optimizer) bind(c) result(status)
      import
      type(c_ptr), value :: optimizer
      integer(c_int) :: status
    end function
    function lathe_optimizer_free(optimizer) bind(c) result(status)
      import
      type(c_ptr), value :: optimizer
      integer(c_int) :: status
    end function
    function lathe_train_step(model, optimizer, loss, n_inputs, inputs, target, out) bind(c) result(status)
      import
      type(c_ptr), value :: model
      type(c_ptr), value :: optimizer
      character(kind=c_char), intent(in) :: loss(*)
      integer(c_int32_t), value :: n_inputs
      type(c_ptr), intent(in) :: inputs(*)
      type(c_ptr), value :: target
      real(c_double), intent(out) :: out
      integer(c_int) :: status
    end function
    function lathe_checkpoint_save(path, model, optimizer) bind(c) result(status)
      import
      character(kind=c_char), intent(in) :: path(*)
      type(c_ptr), value :: model
      type(c_ptr), value :: optimizer
      integer(c_int) :: status
    end function
    function lathe_checkpoint_load(path, model, optimizer) bind(c) result(status)
      import
      character(kind=c_char), intent(in) :: path(*)
      type(c_ptr), value :: model
      type(c_ptr), value :: optimizer
      integer(c_int) :: status
    end function
  end interface

contains

  ! Ends the program with Lathe's message if `status` is not LATHE_OK.
  subroutine lathe_check(status)
    integer(c_int), intent(in) :: status
    if (status == LATHE_OK) return
    write (error_unit, '(a)') lathe_text(lathe_last_error())
    error stop 1
  end subroutine

  ! A text of C as a text of Fortran.
  function lathe_text(text) result(out)
    type(c_ptr), intent(in) :: text
    character(:), allocatable :: out
    character(kind=c_char), pointer :: letters(:)
    integer :: length, i
    interface
      function strlen(text) bind(c) result(length)
        import
        type(c_ptr), value :: text
        integer(c_size_t) :: length
      end function
    end interface
    length = int(strlen(text))
    call c_f_pointer(text, letters, [length])
    allocate (character(length) :: out)
    do i = 1, length
      out(i:i) = letters(i)
    end do
  end function

  function wrap(data, dtype, sizes, tensor) result(status)
    type(c_ptr), intent(in) :: data
    integer(c_int), intent(in) :: dtype
    integer, intent(in) :: sizes(:)
    type(c_ptr), intent(out) :: tensor
    integer(c_int) :: status
    integer(c_int64_t) :: strides(size(sizes))
    integer :: i
    strides(1) = 1
    do i = 2, size(sizes)
      strides(i) = strides(i - 1)*sizes(i - 1)
    end do
    status = lathe_tensor_wrap(data, dtype, size(sizes), int(sizes, c_int64_t), strides, c_null_funptr, c_null_ptr, tensor)
  end function

  function wrap_real32_1(array, tensor) result(status)
    real(real32), target, contiguous, intent(in) :: array(:)
    type(c_ptr), intent(out) :: tensor
    integer(c_int) :: status
    status = wrap(c_loc(array), LATHE_F32, shape(array), tensor)
  end function

  function wrap_real32_2(array, tensor) result(status)
    real(real32), target, contiguous, intent(in) :: array(:, :)
    type(c_ptr), intent(out) :: tensor
    integer(c_int) :: status
    status = wrap(c_loc(array), LATHE_F32, shape(array), tensor)
  end function

  function wrap_real32_3(array, tensor) result(status)
    real(real32), target, contiguous, intent(in) :: array(:, :, :)
    type(c_ptr), intent(out) :: tensor
    integer(c_int) :: status
    status = wrap(c_loc(array), LATHE_F32, shape(array), tensor)
  end function

  function wrap_real32_4(array, tensor) result(status)
    real(real32), target, contiguous, intent(in) :: array(:, :, :, :)
    type(c_ptr), intent(out) :: tensor
    integer(c_int) :: status
    status = wrap(c_loc(array), LATHE_F32, shape(array), tensor)
  end function

  function wrap_real64_1(array, tensor) result(status)
    real(real64), target, contiguous, intent(in) :: array(:)
    type(c_ptr), intent(out) :: tensor
    integer(c_int) :: status
    status = wrap(c_loc(array), LATHE_F64, shape(array), tensor)
  end function

  function wrap_real64_2(array, tensor) result(status)
    real(real64), target, contiguous, intent(in) :: array(:, :)
    type(c_ptr), intent(out) :: tensor
    integer(c_int) :: status
    status = wrap(c_loc(array), LATHE_F64, shape(array), tensor)
  end function

  function wrap_real64_3(array, tensor) result(status)
    real(real64), target, contiguous, intent(in) :: array(:, :, :)
    type(c_ptr), intent(out) :: tensor
    integer(c_int) :: status
    status = wrap(c_loc(array), LATHE_F64, shape(array), tensor)
  end function

  function wrap_real64_4(array, tensor) result(status)
    real(real64), target, contiguous, intent(in) :: array(:, :, :, :)
    type(c_ptr), intent(out) :: tensor
    integer(c_int) :: status
    status = wrap(c_loc(array), LATHE_F64, shape(array), tensor)
  end function

  function wrap_int32_1(array, tensor) result(status)
    integer(int32), target, contiguous, intent(in) :: array(:)
    type(c_ptr), intent(out) :: tensor
    integer(c_int) :: status
    status = wrap(c_loc(array), LATHE_I32, shape(array), tensor)
  end function

  function wrap_int32_2(array, tensor) result(status)
    integer(int32), target, contiguous, intent(in) :: array(:, :)
    type(c_ptr), intent(out) :: tensor
    integer(c_int) :: status
    status = wrap(c_loc(array), LATHE_I32, shape(array), tensor)
  end function

  function wrap_int32_3(array, tensor) result(status)
    integer(int32), target, contiguous, intent(in) :: array(:, :, :)
    type(c_ptr), intent(out) :: tensor
    integer(c_int) :: status
    status = wrap(c_loc(array), LATHE_I32, shape(array), tensor)
  end function

  function wrap_int32_4(array, tensor) result(status)
    integer(int32), target, contiguous, intent(in) :: array(:, :, :, :)
    type(c_ptr), intent(out) :: tensor
    integer(c_int) :: status
    status = wrap(c_loc(array), LATHE_I32, shape(array), tensor)
  end function

  function wrap_int64_1(array, tensor) result(status)
    integer(int64), target, contiguous, intent(in) :: array(:)
    type(c_ptr), intent(out) :: tensor
    integer(c_int) :: status
    status = wrap(c_loc(array), LATHE_I64, shape(array), tensor)
  end function

  function wrap_int64_2(array, tensor) result(status)
    integer(int64), target, contiguous, intent(in) :: array(:, :)
    type(c_ptr), intent(out) :: tensor
    integer(c_int) :: status
    status = wrap(c_loc(array), LATHE_I64, shape(array), tensor)
  end function

  function wrap_int64_3(array, tensor) result(status)
    integer(int64), target, contiguous, intent(in) :: array(:, :, :)
    type(c_ptr), intent(out) :: tensor
    integer(c_int) :: status
    status = wrap(c_loc(array), LATHE_I64, shape(array), tensor)
  end function

  function wrap_int64_4(array, tensor) result(status)
    integer(int64), target, contiguous, intent(in) :: array(:, :, :, :)
    type(c_ptr), intent(out) :: tensor
    integer(c_int) :: status
    status = wrap(c_loc(array), LATHE_I64, shape(array), tensor)
  end function

end module lathe
