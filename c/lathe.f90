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

  ! A tensor over an array of reals or 64-bit integers, without a copy: lathe_wrap(array, tensor). The
  ! array must have the attribute target and at least one element, and live as long as the tensor. It
  ! can be a section, as u(1:6:2, 1), but not an expression. The tensor has the array's sizes in the
  ! same order: x(i, j) is its element [i-1, j-1].
  interface lathe_wrap
    module procedure wrap_real32_1, wrap_real32_2, wrap_real32_3, wrap_real32_4
    module procedure wrap_real64_1, wrap_real64_2, wrap_real64_3, wrap_real64_4
    module procedure wrap_int64_1, wrap_int64_2
  end interface
  private :: wrap, wrap_real32_1, wrap_real32_2, wrap_real32_3, wrap_real32_4, &
             wrap_real64_1, wrap_real64_2, wrap_real64_3, wrap_real64_4, &
             wrap_int64_1, wrap_int64_2

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
      type(c_ptr), value :: data, context
      integer(c_int), value :: dtype
      integer(c_int32_t), value :: ndim
      integer(c_int64_t), intent(in) :: sizes(*), strides(*)
      type(c_funptr), value :: release
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
      type(c_ptr), value :: from, to
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
      type(c_ptr), value :: tensor, gradient
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
      type(c_ptr), intent(out) :: name, out
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
      integer(c_int32_t), value :: gradients, n_inputs, n_outputs
      type(c_ptr), intent(in) :: inputs(*)
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
      type(c_ptr), value :: output, target
      type(c_ptr), intent(out) :: out
      integer(c_int) :: status
    end function
    function lathe_optimizer_new(model, name, options, out) bind(c) result(status)
      import
      type(c_ptr), value :: model
      character(kind=c_char), intent(in) :: name(*), options(*)
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
      type(c_ptr), value :: model, optimizer, target
      character(kind=c_char), intent(in) :: loss(*)
      integer(c_int32_t), value :: n_inputs
      type(c_ptr), intent(in) :: inputs(*)
      real(c_double), intent(out) :: out
      integer(c_int) :: status
    end function
    function lathe_checkpoint_save(path, model, optimizer) bind(c) result(status)
      import
      character(kind=c_char), intent(in) :: path(*)
      type(c_ptr), value :: model, optimizer
      integer(c_int) :: status
    end function
    function lathe_checkpoint_load(path, model, optimizer) bind(c) result(status)
      import
      character(kind=c_char), intent(in) :: path(*)
      type(c_ptr), value :: model, optimizer
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

  ! first: the address of the first element; next(d): that of the second one in dimension d.
  function wrap(first, next, dtype, bytes, sizes, tensor) result(status)
    type(c_ptr), intent(in) :: first, next(:)
    integer(c_int), intent(in) :: dtype
    integer, intent(in) :: bytes
    integer(c_int64_t), intent(in) :: sizes(:)
    type(c_ptr), intent(out) :: tensor
    integer(c_int64_t) :: strides(size(sizes))
    integer(c_int) :: status
    strides = (transfer(next, [0_c_intptr_t]) - transfer(first, 0_c_intptr_t))/bytes
    status = lathe_tensor_wrap(first, dtype, size(sizes), sizes, strides, c_null_funptr, c_null_ptr, tensor)
  end function

  function wrap_real32_1(a, tensor) result(status)
    real(real32), target, intent(inout) :: a(:)
    type(c_ptr), intent(out) :: tensor
    integer(c_int) :: status
    status = wrap(c_loc(a(1)), [c_loc(a(min(2, size(a, 1))))], LATHE_F32, 4, shape(a, c_int64_t), tensor)
  end function
  function wrap_real32_2(a, tensor) result(status)
    real(real32), target, intent(inout) :: a(:, :)
    type(c_ptr), intent(out) :: tensor
    integer(c_int) :: status
    status = wrap(c_loc(a(1, 1)), [c_loc(a(min(2, size(a, 1)), 1)), &
                   c_loc(a(1, min(2, size(a, 2))))], LATHE_F32, 4, shape(a, c_int64_t), tensor)
  end function
  function wrap_real32_3(a, tensor) result(status)
    real(real32), target, intent(inout) :: a(:, :, :)
    type(c_ptr), intent(out) :: tensor
    integer(c_int) :: status
    status = wrap(c_loc(a(1, 1, 1)), [c_loc(a(min(2, size(a, 1)), 1, 1)), &
                   c_loc(a(1, min(2, size(a, 2)), 1)), &
                   c_loc(a(1, 1, min(2, size(a, 3))))], LATHE_F32, 4, shape(a, c_int64_t), tensor)
  end function
  function wrap_real32_4(a, tensor) result(status)
    real(real32), target, intent(inout) :: a(:, :, :, :)
    type(c_ptr), intent(out) :: tensor
    integer(c_int) :: status
    status = wrap(c_loc(a(1, 1, 1, 1)), [c_loc(a(min(2, size(a, 1)), 1, 1, 1)), &
                   c_loc(a(1, min(2, size(a, 2)), 1, 1)), &
                   c_loc(a(1, 1, min(2, size(a, 3)), 1)), &
                   c_loc(a(1, 1, 1, min(2, size(a, 4))))], LATHE_F32, 4, shape(a, c_int64_t), tensor)
  end function
  function wrap_real64_1(a, tensor) result(status)
    real(real64), target, intent(inout) :: a(:)
    type(c_ptr), intent(out) :: tensor
    integer(c_int) :: status
    status = wrap(c_loc(a(1)), [c_loc(a(min(2, size(a, 1))))], LATHE_F64, 8, shape(a, c_int64_t), tensor)
  end function
  function wrap_real64_2(a, tensor) result(status)
    real(real64), target, intent(inout) :: a(:, :)
    type(c_ptr), intent(out) :: tensor
    integer(c_int) :: status
    status = wrap(c_loc(a(1, 1)), [c_loc(a(min(2, size(a, 1)), 1)), &
                   c_loc(a(1, min(2, size(a, 2))))], LATHE_F64, 8, shape(a, c_int64_t), tensor)
  end function
  function wrap_real64_3(a, tensor) result(status)
    real(real64), target, intent(inout) :: a(:, :, :)
    type(c_ptr), intent(out) :: tensor
    integer(c_int) :: status
    status = wrap(c_loc(a(1, 1, 1)), [c_loc(a(min(2, size(a, 1)), 1, 1)), &
                   c_loc(a(1, min(2, size(a, 2)), 1)), &
                   c_loc(a(1, 1, min(2, size(a, 3))))], LATHE_F64, 8, shape(a, c_int64_t), tensor)
  end function
  function wrap_real64_4(a, tensor) result(status)
    real(real64), target, intent(inout) :: a(:, :, :, :)
    type(c_ptr), intent(out) :: tensor
    integer(c_int) :: status
    status = wrap(c_loc(a(1, 1, 1, 1)), [c_loc(a(min(2, size(a, 1)), 1, 1, 1)), &
                   c_loc(a(1, min(2, size(a, 2)), 1, 1)), &
                   c_loc(a(1, 1, min(2, size(a, 3)), 1)), &
                   c_loc(a(1, 1, 1, min(2, size(a, 4))))], LATHE_F64, 8, shape(a, c_int64_t), tensor)
  end function
  function wrap_int64_1(a, tensor) result(status)
    integer(int64), target, intent(inout) :: a(:)
    type(c_ptr), intent(out) :: tensor
    integer(c_int) :: status
    status = wrap(c_loc(a(1)), [c_loc(a(min(2, size(a, 1))))], LATHE_I64, 8, shape(a, c_int64_t), tensor)
  end function
  function wrap_int64_2(a, tensor) result(status)
    integer(int64), target, intent(inout) :: a(:, :)
    type(c_ptr), intent(out) :: tensor
    integer(c_int) :: status
    status = wrap(c_loc(a(1, 1)), [c_loc(a(min(2, size(a, 1)), 1)), &
                   c_loc(a(1, min(2, size(a, 2))))], LATHE_I64, 8, shape(a, c_int64_t), tensor)
  end function

end module lathe
